"""Ollama's `/api/generate`, on a model that is loaded already and with the context that it is loaded with.

A request for another context would load the model anew, and so would one without, where another client asked for more
than the default: the loaded one is named. `keep_alive` is left alone.

Its times mean what llama-server's do, which it runs since 0.30, as those of its own runners did: the time of generating
begins with the first token, so that n tokens are n - 1 steps. `prompt_eval_count` has the cached tokens in it, and
`prompt_eval_duration` only the time of the others; how many were cached is told since 0.33.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

import msgspec

from unslow.facts.values import Count
from unslow.look.openai_api import parse_object
from unslow.look.requests import PartialAnswer, Question, Reply, Target, read_whole_answer, thinking_tokens
from unslow.look.server_answers import objects_at
from unslow.look.system import ExchangeError, Line, LookError, System

CLOCK = "server timings"
GREEDY = {"temperature": 0.0, "top_k": 1}
LOADED_ANEW_S = 2.0  # a loaded model takes a few hundredths of a second to be found
_BROKE_OFF = "the answer broke off: it ended without the server's timings"
_FEWEST_PIECES = 16
"""Of a stream without an end: Ollama gives an answer up, without a word, after 30 equal tokens in a row
(llm/llama_server.go, tokenRepeat)."""
_FEWEST_SLOW_PIECES, _LONG_S = 4, 1.0
"""Of one that took so long from the first piece to the last: then the client's clock is exact enough for so few."""
CLOCK_AND_PIECES = "client clock, one token for each piece of a stream that ended without the server's timings"
_S_PER_NS = 1e-9
_PATH = "/api/generate"


def ask(system: System, target: Target, question: Question, heard: PartialAnswer) -> Reply:
    """One request for that many tokens; LookError rather than a request that would load the model."""
    server = target.server(system)
    named = objects_at(server.json("/api/ps"), "models")
    loaded = [model for model in named if target.model in (model.get("name"), model.get("model"))]
    if not loaded:
        raise LookError(f"{target.model} is no longer loaded, and a measurement must not load it")
    contexts = [model.get("context_length") or target.context for model in loaded]
    if target.context and target.context not in contexts:
        raise LookError(
            f"{target.model} was reloaded with another context length, and a measurement must not reload it"
        )
    body = body_of(target, question)
    if question.stream:
        with closing(server.stream(_PATH, body, question.deadline_s, question.silence_s)) as lines:
            final = listen(lines, heard)
        if not final and _tells_speed(heard.arrivals):
            # What came, timed by the client: Ollama sends a piece for each token
            return Reply(
                prompt_tokens=0,
                generated_tokens=len(heard.arrivals),
                ended_early=True,
                arrivals_s=tuple(heard.arrivals),
                total_s=heard.last_s,
                clock=CLOCK_AND_PIECES,
                text=heard.text,
            )
        return reply_of(parse_final(final), question, heard, heard.last_s)
    answer, total_s = read_whole_answer(server, _PATH, body, question)
    heard.keep_text(answer.get("response"))
    return reply_of(parse_final(answer), question, heard, total_s)


def _tells_speed(arrivals: Sequence[float]) -> bool:
    return len(arrivals) >= _FEWEST_PIECES or (
        len(arrivals) >= _FEWEST_SLOW_PIECES and arrivals[-1] - arrivals[0] >= _LONG_S
    )


def body_of(target: Target, question: Question) -> dict[str, Any]:
    """The request; the prompt as it is, without the template of a chat."""
    options: dict[str, Any] = {"num_predict": question.tokens}
    if target.context:
        options["num_ctx"] = target.context
    if question.greedy:
        options |= GREEDY
    return {
        "model": target.model,
        "prompt": question.prompt,
        "raw": True,
        "stream": question.stream,
        "options": options,
    }


def listen(lines: Iterable[Line], heard: PartialAnswer) -> dict[str, Any]:
    """The last event; the pieces before it are heard as they come."""
    final: dict[str, Any] = {}
    for seconds, text in lines:
        if not text.strip():
            continue
        event = parse_object(text)
        if event.get("error"):
            raise LookError(f"the server answered with an error: {str(event['error'])[:200]}")
        if event.get("thinking"):
            heard.add_thought(seconds)
        elif event.get("response"):
            heard.piece(seconds, event["response"])
        heard.last_s = seconds
        final = event if event.get("done") is True else final
    return final


class _Final(msgspec.Struct):
    """The last event of a stream; durations are in nanoseconds."""

    eval_count: Count
    eval_duration: Count
    prompt_eval_count: Count = 0
    prompt_eval_cached_count: Count | None = None
    prompt_eval_duration: Count = 0
    load_duration: Count = 0


def parse_final(final: dict[str, Any]) -> _Final:
    """Counts and times of the last event; LookError where the model had to be loaded for it."""
    try:
        times = msgspec.convert(final, _Final)
    except msgspec.ValidationError as error:
        raise ExchangeError("broke_off", _BROKE_OFF) from error
    if times.load_duration * _S_PER_NS > LOADED_ANEW_S:
        raise LookError("this request reloaded the model, so no more are sent: its options differ")
    if not times.eval_count:
        raise LookError("the server generated nothing")
    return times


def reply_of(times: _Final, question: Question, heard: PartialAnswer, total_s: float) -> Reply:
    """The reply; where a cache may have answered and does not tell, the time of the prompt is not that of its count."""
    cached, prefill_s = times.prompt_eval_cached_count or 0, times.prompt_eval_duration * _S_PER_NS
    untold = question.keep and times.prompt_eval_cached_count is None
    return Reply(
        prompt_tokens=max(0, times.prompt_eval_count - cached),
        cached_tokens=min(cached, times.prompt_eval_count),
        generated_tokens=times.eval_count,
        thinking_tokens=thinking_tokens(heard, times.eval_count, None, shown=question.stream),
        ended_early=times.eval_count < question.tokens,
        arrivals_s=tuple(heard.arrivals),
        total_s=total_s,
        clock=CLOCK,
        server_prefill_s=None if untold else prefill_s,
        server_decode_s=times.eval_duration * _S_PER_NS,
        server_load_s=times.load_duration * _S_PER_NS,
        text=heard.text,
    )
