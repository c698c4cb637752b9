"""The places of a text at which a server is asked, spread over all of it: neighbours tell much the same."""

import math
from typing import NamedTuple

from unslow.facts.values import Absence
from unslow.look.bench.guest import Target
from unslow.look.bench.tokenizers import read_tokens
from unslow.look.system import LookError, System

FIRST_PLACE = 16
"""Tokens that come before the first place: without them anything may follow."""
MOST_TOKENS = 4096
_SPARE = 16


class Text(NamedTuple):
    """A text, at how many places to ask at most, and within which time and context."""

    text: str
    places: int = 200
    seconds: float = 60.0
    context: int | None = None
    slot: int | None = None


def tokens_of(system: System, target: Target, text: Text) -> list[int]:
    """The text in tokens, as far as the context has room; LookError where the server has no tokenizer to ask."""
    tokens = read_tokens(system, target, text.text)
    if tokens is None:
        raise LookError(f"{target.runtime} did not say how it reads the text", Absence.NOT_SUPPORTED)
    room = MOST_TOKENS if text.context is None else min(MOST_TOKENS, text.context - _SPARE)
    if min(len(tokens), room) <= FIRST_PLACE + 1:
        raise LookError("the context has no room for the text that it is asked about")
    return tokens[:room]


def places_of(length: int, most: int) -> tuple[int, ...]:
    """Numbers of tokens, each of which is to be expected from those before it."""
    step = max(1, math.ceil((length - FIRST_PLACE) / max(1, most)))
    return tuple(range(FIRST_PLACE, length, step))
