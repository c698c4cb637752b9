"""vLLM's `prompt_logprobs`: the probabilities of every token of a prompt, in one answer.

Each place has the token that stands there and the likeliest one, by their numbers; the first has none. The rank says
which of them is the likeliest (vllm/logprobs.py).
"""

from typing import Annotated, Any

import msgspec

from unslow.facts.values import Absence, Count
from unslow.facts.verification import LogProbability, Scored
from unslow.look.openai_api import OK
from unslow.look.requests import ScoredText, Target, scored_places, scored_tokens
from unslow.look.system import LookError, System

_PATH = "/v1/completions"


class _Entry(msgspec.Struct):
    logprob: LogProbability
    rank: Count | None = None


class _Choice(msgspec.Struct):
    prompt_logprobs: list[dict[str, _Entry] | None]


class _Answer(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]


def score(system: System, target: Target, text: ScoredText) -> Scored:
    """One request for all places."""
    server, tokens = target.server(system), scored_tokens(system, target, text)
    answer = server.ask(_PATH, "POST", scoring_body(target, tokens), text.seconds)
    if answer.status != OK:
        said = answer.body[:200].decode("utf-8", "replace").strip()
        raise LookError(f"{server.url}{_PATH} answered {answer.status}: {said}", Absence.FAILED)
    return parse_scored(answer.json(), tokens, scored_places(len(tokens), text.places))


def scoring_body(target: Target, tokens: list[int]) -> dict[str, Any]:
    """The request; one token has to be generated, and is not used."""
    return {"model": target.model, "prompt": tokens, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 1}


def parse_scored(answer: Any, tokens: list[int], places: tuple[int, ...]) -> Scored:
    """The places that were asked for; LookError where the answer lacks one of them."""
    try:
        listed = msgspec.convert(answer, _Answer).choices[0].prompt_logprobs
        found = [(_entry(listed, place), str(tokens[place])) for place in places]
        return Scored(
            tokens=tuple(tokens),
            at=places,
            log_probabilities=tuple(min(0.0, entries[token].logprob) for entries, token in found),
            likeliest=tuple(int(max(entries, key=lambda number: entries[number].logprob)) for entries, _ in found),
        )
    except (msgspec.ValidationError, LookupError, ValueError) as error:
        raise LookError(f"the server gave no probabilities of the prompt: {error}", Absence.NOT_SUPPORTED) from error


def _entry(listed: list[dict[str, _Entry] | None], place: int) -> dict[str, _Entry]:
    entries = listed[place]
    if not entries:
        raise LookupError(f"nothing at place {place}")
    return entries
