"""One of two servers that are held against each other: how fast it was in each round, and what it answered.

A side can be kept in a file and held against another one later, so every text and list in it is bounded.
"""

from typing import Annotated

import msgspec

from unslow.facts.errors import UserError
from unslow.facts.machine import Facts
from unslow.facts.stored_json import parse_stored
from unslow.facts.values import Amount, Count

SCHEMA = "unslow.verify_side/1"
LARGEST_SIDE_BYTES = 4 * 1024**2
REQUEST = "request_s"
MOST_ROUNDS, MOST_ANSWERS, MOST_POSITIONS = 10_000, 64, 4096
LogProbability = Annotated[float, msgspec.Meta(ge=-1e4, le=1e-3)]  # A rounding error above zero is no lie
Texts = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=32_768)], ...], msgspec.Meta(max_length=MOST_ANSWERS)]


class Work(Facts, frozen=True, kw_only=True):
    """The request that both are asked, again and again."""

    prompt_tokens: Count = 128  # New ones, which have to be read
    kept_tokens: Count = 0  # Those before them, which the cache has already
    answer_tokens: Count = 128


class Sample(Facts, frozen=True, kw_only=True):
    """One request of a round; None where it could not be told."""

    round: Count
    decode_tokens_per_s: Amount | None = None
    prefill_tokens_per_s: Amount | None = None
    request_s: Amount | None = None  # From the request to the end of an answer of the whole length


class TokenScores(Facts, frozen=True, kw_only=True):
    """What it expects of a given text: at some places, how likely it takes the token that really follows."""

    tokens: Annotated[tuple[Count, ...], msgspec.Meta(max_length=4 * MOST_POSITIONS)]  # The whole text as it reads it
    at: Annotated[tuple[Count, ...], msgspec.Meta(max_length=MOST_POSITIONS)]  # The places, as numbers of tokens
    log_probabilities: Annotated[tuple[LogProbability, ...], msgspec.Meta(max_length=MOST_POSITIONS)]
    likeliest: Annotated[tuple[Count, ...], msgspec.Meta(max_length=MOST_POSITIONS)]
    """The token that it would have chosen at each place."""


class Side(Facts, frozen=True, kw_only=True):
    """Everything that was measured of one server."""

    schema: str = SCHEMA
    what: str  # Its address, or the command line that started it
    taken_at: str = ""
    runtime: str = "unknown"
    runtime_version: str = ""
    model: str = "unknown"
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    """Every setting that is known, by the name of its fact."""
    work: Work = Work()
    samples: Annotated[tuple[Sample, ...], msgspec.Meta(max_length=MOST_ROUNDS)] = ()
    failures: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_ROUNDS)] = ()  # Why requests were not answered
    starts_s: Annotated[tuple[Amount, ...], msgspec.Meta(max_length=MOST_ROUNDS)] = ()
    """How long each start took, where it was started for this."""
    failed_starts: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_ROUNDS)] = ()
    """Why it did not start, after it had started before."""
    answers: Texts = ()  # Of the questions that are always the same, without any chance in them
    compared_tokens: Count = 0  # How long each of these answers may be
    places: Count = 0  # At how many places it was to be asked for probabilities
    again: Texts = ()  # The same questions, asked once more
    scored: TokenScores | None = None
    not_scored: str = ""  # Why it was not asked for probabilities, or gave none
    written_turns: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """A sign of the way that it writes a conversation (its chat template); empty where it does not show that."""
    host_bytes_per_s: Annotated[tuple[Amount, ...], msgspec.Meta(max_length=MOST_ROUNDS)] = ()
    """How fast the host's memory was, beside the rounds."""
    conditions: dict[str, Amount] = msgspec.field(default_factory=dict)  # What the machine was like meanwhile


def parse_side(data: bytes, where: str) -> Side:
    """A side from a file; UserError where it is none."""
    hint = "such a file is written by `unslow verify --save FILE URL`"
    side = parse_stored(data, Side, where, "measurement", LARGEST_SIDE_BYTES, hint)
    scored = side.scored
    if scored and not len(scored.at) == len(scored.log_probabilities) == len(scored.likeliest):
        raise UserError(f"{where} is not a measurement: its probabilities do not match its positions", hint)
    return side
