"""llama-server tells the probability of a token that it generates, so it is made to generate the one that follows.

A bias makes the true token certain to be taken, and with `post_sampling_probs` off the probabilities are those of the
model before any bias or sampler: `get_token_probabilities` in its server-common.cpp reads the logits themselves. The
prompt stays in the cache, so each place costs the tokens since the last one.
"""

from typing import Annotated, Any

import msgspec

from unslow.facts.values import Absence, Count
from unslow.facts.verified import LogProbability, Scored
from unslow.look.bench.dialects.llama_cpp import GREEDY
from unslow.look.bench.guest import Target
from unslow.look.openai_api.server import OK, Server
from unslow.look.scoring.places import Text, places_of, tokens_of
from unslow.look.system import LookError, System

_PATH = "/completion"
_CERTAIN = 10_000.0
"""Far above the logits of any model."""
_TIMEOUT_S = 300.0


class _Top(msgspec.Struct):
    id: Count


class _Token(msgspec.Struct):
    """One entry of `completion_probabilities`, as llama-server has it since the end of 2024."""

    id: Count
    logprob: LogProbability
    top_logprobs: Annotated[list[_Top], msgspec.Meta(min_length=1)]


class _Answer(msgspec.Struct):
    completion_probabilities: Annotated[list[_Token], msgspec.Meta(min_length=1)]


def score(system: System, target: Target, text: Text) -> Scored:
    """Place by place, until all are asked or the time is over; one place at least."""
    server, tokens = target.server(system), tokens_of(system, target, text)
    end = system.clock() + text.seconds
    found: list[tuple[int, _Token]] = []
    for place in places_of(len(tokens), text.places):
        found.append((place, _asked(server, body_of(target, tokens, place, text.slot), tokens[place])))
        if system.clock() > end:
            break
    return Scored(
        tokens=tuple(tokens),
        at=tuple(place for place, _ in found),
        log_probabilities=tuple(min(0.0, token.logprob) for _, token in found),
        likeliest=tuple(token.top_logprobs[0].id for _, token in found),
    )


def body_of(target: Target, tokens: list[int], place: int, slot: int | None) -> dict[str, Any]:
    """The request that makes it generate the token of this place."""
    named = {"model": target.model} if target.model else {}  # a router wants it
    placed = {} if slot is None else {"id_slot": slot}
    return {
        "prompt": tokens[:place],
        "n_predict": 1,
        "n_probs": 1,
        "post_sampling_probs": False,
        "logit_bias": [[tokens[place], _CERTAIN]],
        "cache_prompt": True,
        **GREEDY,
        **named,
        **placed,
    }


def _asked(server: Server, body: dict[str, Any], wanted: int) -> _Token:
    answer = server.ask(_PATH, "POST", body, _TIMEOUT_S)
    if answer.status != OK:
        said = answer.body[:200].decode("utf-8", "replace").strip()
        raise LookError(f"{server.url}{_PATH} answered {answer.status}: {said}", Absence.FAILED)
    return parse_token(answer.json(), wanted)


def parse_token(answer: Any, wanted: int) -> _Token:
    """The token with its probability; LookError where there is none, as from a model that computes no numbers."""
    try:
        token = msgspec.convert(answer, _Answer).completion_probabilities[0]
    except msgspec.ValidationError as error:
        raise LookError(f"the server gave no probability of a token: {error}", Absence.NOT_SUPPORTED) from error
    if token.id != wanted:
        raise LookError("the server generated another token than the one that it was told to", Absence.NOT_SUPPORTED)
    return token
