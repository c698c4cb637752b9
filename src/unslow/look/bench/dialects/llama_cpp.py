"""llama-server's own `/completion`: any slot, no early end, and the server's timings.

It counts the first token, which comes from the logits of the prompt, and times the steps after it: `predicted_n` tokens
in `predicted_ms` are n - 1 steps. `prompt_n` are the tokens that were computed, `cache_n` those that were not.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from unslow.facts.values import Amount, Count
from unslow.look.bench.guest import Question, Reply, Target
from unslow.look.bench.heard import Heard, thinking_tokens
from unslow.look.bench.whole import read_whole
from unslow.look.openai_api.stream import parse_event
from unslow.look.system import LookError, System
from unslow.look.system.door import ExchangeError, Line

CLOCK = "server timings"
GREEDY = {"samplers": ["top_k"], "top_k": 1, "temperature": 0.0}
"""One look over the logits: the chain always ends in a draw, here from the one token that is left."""
_BROKE_OFF = "the answer ended without the server's timings: did it break off?"
_PATH = "/completion"


class Timings(msgspec.Struct):
    """The `timings` object of llama-server."""

    prompt_n: Count
    prompt_ms: Amount
    predicted_n: Count
    predicted_ms: Amount
    cache_n: Count = 0
    draft_n: Count = 0
    draft_n_accepted: Count = 0


def ask(system: System, target: Target, question: Question, heard: Heard) -> Reply:
    """One request for that many tokens, timed by the server and by this clock.

    A server that binds every answer to a grammar fails where one goes on past its end: then it may end there.
    """
    try:
        return _ask(system, target, question, heard, {})
    except ExchangeError as error:
        if error.kind != "error" or "grammar" not in error.why or not heard.arrivals:
            raise
    heard.forget()
    return _ask(system, target, question, heard, {"ignore_eos": False})


def _ask(system: System, target: Target, question: Question, heard: Heard, changes: dict[str, Any]) -> Reply:
    server, body = target.server(system), body_of(target, question) | changes
    if question.stream:
        timings = listen(server.stream(_PATH, body, question.deadline_s, question.silence_s), heard)
        return reply_of(parse_timings(timings), question, heard, heard.last_s)
    answer, total_s = read_whole(server, _PATH, body, question)
    heard.whole(answer.get("content"))
    return reply_of(parse_timings(answer.get("timings")), question, heard, total_s)


def body_of(target: Target, question: Question) -> dict[str, Any]:
    """The request; a slot only where one was chosen, samplers as the server has them unless it is to be greedy."""
    body: dict[str, Any] = {
        "prompt": question.prompt,
        "n_predict": question.tokens,
        "stream": question.stream,
        "ignore_eos": True,
    }
    if not question.cache_as_set:
        body["cache_prompt"] = question.keep
    if target.model:
        body["model"] = target.model  # a router wants it, a server alone does not mind
    if question.slot is not None:
        body["id_slot"] = question.slot
    return body | GREEDY if question.greedy else body


def listen(lines: Iterable[Line], heard: Heard) -> Any:
    """The timings of the last event; each event before it is one token, whether or not it shows."""
    timings: Any = None
    for seconds, text in lines:
        event = parse_event(text)
        if event is None:
            continue
        if event.get("stop") is not True:
            heard.piece(seconds, event.get("content"))
        heard.last_s = seconds
        timings = event.get("timings", timings)
    return timings


def parse_timings(timings: Any) -> Timings:
    """The server's timings; LookError where the answer ended without, or without a token."""
    try:
        times = msgspec.convert(timings, Timings)
    except msgspec.ValidationError as error:
        raise ExchangeError("broke_off", _BROKE_OFF) from error
    if not times.predicted_n:
        raise LookError("the server generated nothing")
    return times


def reply_of(times: Timings, question: Question, heard: Heard, total_s: float) -> Reply:
    """The reply, in whose times n tokens are n - 1 steps already."""
    return Reply(
        prompt_tokens=times.prompt_n,
        cached_tokens=times.cache_n,
        generated_tokens=times.predicted_n,
        thinking_tokens=thinking_tokens(heard, times.predicted_n, None, shown=question.stream),
        ended_early=times.predicted_n < question.tokens,
        arrivals_s=tuple(heard.arrivals),
        total_s=total_s,
        clock=CLOCK,
        server_prefill_s=times.prompt_ms / 1000,
        server_decode_s=times.predicted_ms / 1000,
        text=heard.text,
        drafted_tokens=times.draft_n,
        accepted_tokens=min(times.draft_n_accepted, times.draft_n),
    )
