"""OpenAI's interface, which has no timings of its own: the client's clock has to do, unless the server adds them.

The first token ends the wait for the prompt, the queue and the way there; n tokens arrive in n - 1 steps after it.
"""

import re
from collections.abc import Iterable
from typing import Any

from unslow.look.bench.dialects.openai_extras import Extras, parse_extras
from unslow.look.bench.guest import Question, Reply, Target
from unslow.look.bench.heard import Heard, thinking_tokens
from unslow.look.bench.whole import read_whole
from unslow.look.openai_api.stream import Usage, is_end, parse_event, parse_usage, said
from unslow.look.system import LookError, System
from unslow.look.system.door import ExchangeError, Line

CLOCK, CLOCK_AND_CHUNKS = "client clock", "client clock, one token for each piece of the stream"
SERVER_CLOCK = "server timings"
_TEXT, _CHAT = "/v1/completions", "/v1/chat/completions"
_CHAT_FIRST = ("LM Studio", "TGI", "Transformers", "OpenAI")
_RUNS_ON = ("vLLM", "SGLang")  # these know `ignore_eos`; others may refuse what they don't know
_NOT_THERE = re.compile(r"answered (?:400|404|405|422|501)\b")


def ask(system: System, target: Target, question: Question, heard: Heard) -> Reply:
    """One request for that many tokens, at whichever of the two addresses the server has."""
    first, second = (_CHAT, _TEXT) if target.runtime.startswith(_CHAT_FIRST) else (_TEXT, _CHAT)
    try:
        return _ask(system, target, question, heard, first)
    except LookError as error:
        if heard.arrivals or not _NOT_THERE.search(error.why):
            raise
    return _ask(system, target, question, heard, second)


def _ask(system: System, target: Target, question: Question, heard: Heard, path: str) -> Reply:
    server, body = target.server(system), body_of(target, question, path)
    shown = path == _TEXT and question.stream
    if question.stream:
        usage, extras = listen(server.stream(path, body, question.deadline_s, question.silence_s), heard)
        return reply_of(usage, extras, question, heard, heard.last_s, shown=shown)
    answer, total_s = read_whole(server, path, body, question)
    words = said(answer)
    heard.whole(words.text if words and not words.is_thought else "")
    usage, extras = parse_usage(answer) or Usage(), parse_extras(answer) or Extras()
    return reply_of(usage, extras, question, heard, total_s, shown=shown)


def body_of(target: Target, question: Question, path: str) -> dict[str, Any]:
    """The request at this address."""
    body: dict[str, Any] = {"model": target.model, "max_tokens": question.tokens, "stream": question.stream}
    if question.stream:
        body["stream_options"] = {"include_usage": True}
    if path == _TEXT:
        body["prompt"] = question.prompt
    else:
        body["messages"] = [{"role": "user", "content": question.prompt}]
    if target.runtime.startswith(_RUNS_ON):
        body["ignore_eos"] = True
    if question.greedy:
        body["temperature"] = 0.0
    return body


def listen(lines: Iterable[Line], heard: Heard) -> tuple[Usage, Extras]:
    """What was counted and timed; LookError where the stream carries an error, no text at all, or no end."""
    usage, extras, ended = Usage(), Extras(), False
    for seconds, text in lines:
        event = parse_event(text)
        if event is None:
            ended = ended or (text.startswith("data:") and is_end(text))
            continue
        heard.last_s = seconds
        usage, extras = parse_usage(event) or usage, parse_extras(event) or extras
        ended = ended or _finishes(event)
        words = said(event)
        if words is None:
            continue
        if words.is_thought:
            heard.thought(seconds)
        else:
            heard.piece(seconds, words.text)
    if not heard.arrivals:
        raise LookError("the server answered without a word")
    if not ended:
        raise ExchangeError("broke_off", "the answer ended without an end: did it break off?")
    return usage, extras


def _finishes(event: dict[str, Any]) -> bool:
    """Whether it comes after the last word: it says why the answer ended, or what was counted."""
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(choice, dict):
        return bool(choice.get("finish_reason"))
    return isinstance(event.get("usage"), dict)


def reply_of(usage: Usage, extras: Extras, question: Question, heard: Heard, total_s: float, *, shown: bool) -> Reply:
    """The reply; what was computed of the prompt is what the cache did not have."""
    counted = extras.generated_tokens or usage.generated_tokens
    generated = counted or len(heard.arrivals)
    if not generated:
        raise LookError("the server does not count its tokens, and the answer came in one piece")
    cached = extras.cached_tokens if extras.cached_tokens is not None else usage.cached_tokens
    computed = max(0, (usage.prompt_tokens or 0) - cached) if extras.prompt_tokens is None else extras.prompt_tokens
    clock = SERVER_CLOCK if extras.decode_s else CLOCK if counted else CLOCK_AND_CHUNKS
    return Reply(
        prompt_tokens=computed,
        cached_tokens=cached,
        generated_tokens=generated,
        thinking_tokens=thinking_tokens(heard, generated, usage.thinking_tokens, shown=shown),
        ended_early=generated < question.tokens,
        arrivals_s=tuple(heard.arrivals),
        total_s=total_s,
        clock=clock,
        server_prefill_s=extras.prefill_s,
        server_decode_s=extras.decode_s,
        server_queue_s=extras.queue_s,
        text=heard.text,
    )
