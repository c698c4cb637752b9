"""How vLLM is measured and scored: its answers carry no times, its counters do."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec

from unslow.facts.values import Absence, Count
from unslow.facts.verification import LogProbability, TokenScores
from unslow.look.openai_api import OK, Server
from unslow.look.requests import Reply, ScoredText, Target, scored_places, scored_tokens
from unslow.look.server_answers import Metrics, parse_metrics
from unslow.look.system import LookError, System, try_look

_PATH = "/v1/completions"
_CLOCK = "server timings"
_TIMES = (
    "vllm:request_prefill_time_seconds_sum", "vllm:request_decode_time_seconds_sum",
    "vllm:request_queue_time_seconds_sum", "vllm:request_decode_time_seconds_count",
)  # fmt: skip
"""What the engine took for requests that ended: for the prompt, for the tokens after the first, in the queue."""
_OFF = 1.05  # Two clocks: the engine can't have taken longer than the client waited


def read_counters(server: Server, names: Sequence[str]) -> Metrics | None:
    """Only these metrics, which is a small answer; a server that can't choose gives all. None where it has none."""
    path = f"/metrics?{urlencode([('name[]', name) for name in names])}"
    found = parse_metrics(try_look("", server.text, path), f"{server.url}/metrics", "vllm:")
    return found if found.samples else None


def start_timing(system: System, target: Target) -> Callable[[Reply], Reply]:
    """Look at the counters now, and again when the reply is there: it gets the server's own times, where it can."""
    before = read_counters(target.server(system), _TIMES)

    def finish(reply: Reply) -> Reply:
        if before is None or reply.server_decode_s is not None:
            return reply
        after = read_counters(target.server(system), _TIMES)
        return reply if after is None else with_counted_times(reply, before, after)

    return finish


def with_counted_times(reply: Reply, before: Metrics, after: Metrics) -> Reply:
    """The reply with what the engine took for it; as it is, where another request ended in the same time."""
    prefill_s, decode_s, queue_s = (
        after.total(name).value_or(math.nan) - before.total(name).value_or(math.nan) for name in _TIMES[:3]
    )
    requests = after.total(_TIMES[3]).value_or(0.0) - before.total(_TIMES[3]).value_or(0.0)
    fits = min(prefill_s, decode_s, queue_s) >= 0 and prefill_s + decode_s + queue_s <= reply.total_s * _OFF
    if requests != 1 or not fits or prefill_s <= 0:  # nothing is true of what is not a number
        return reply
    return reply._replace(
        clock=_CLOCK if decode_s > 0 else reply.clock,
        server_prefill_s=prefill_s,
        server_decode_s=decode_s if decode_s > 0 else None,
        server_queue_s=queue_s,
    )


class _Entry(msgspec.Struct):
    logprob: LogProbability
    rank: Count | None = None


class _Choice(msgspec.Struct):
    prompt_logprobs: list[dict[str, _Entry] | None]


class _Answer(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]


def score(system: System, target: Target, text: ScoredText) -> TokenScores:
    """One request for all places."""
    server, tokens = target.server(system), scored_tokens(system, target, text)
    # one token has to be generated, and is not used
    body = {"model": target.model, "prompt": tokens, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 1}
    answer = server.ask(_PATH, "POST", body, text.seconds)
    if answer.status != OK:
        said = answer.body[:200].decode("utf-8", "replace").strip()
        raise LookError(f"{server.url}{_PATH} answered {answer.status}: {said}", Absence.FAILED)
    return parse_scored(answer.json(), tokens, scored_places(len(tokens), text.places))


def parse_scored(answer: Any, tokens: list[int], places: tuple[int, ...]) -> TokenScores:
    """The places that were asked for; LookError where the answer lacks one of them."""
    try:
        listed = msgspec.convert(answer, _Answer).choices[0].prompt_logprobs
        for place in places:
            if not listed[place]:
                raise LookupError(f"nothing at place {place}")  # noqa: TRY301 (told as any other answer of no use)
        found = [(listed[place] or {}, str(tokens[place])) for place in places]
        return TokenScores(
            tokens=tuple(tokens),
            at=places,
            log_probabilities=tuple(min(0.0, entries[token].logprob) for entries, token in found),
            likeliest=tuple(int(max(entries, key=lambda number: entries[number].logprob)) for entries, _ in found),
        )
    except (msgspec.ValidationError, LookupError, ValueError) as error:
        why = f"the server returned no probabilities of the prompt: {error}"
        raise LookError(why, Absence.NOT_SUPPORTED) from error
