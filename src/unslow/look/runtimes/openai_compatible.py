"""Any other server with OpenAI's interface: it names its models, and is timed from outside.

Nothing in that interface tells where a model lies, how it is placed, or with which settings it was loaded. Whoever
knows more of the server runs unslow beside it, or gives its log to `unslow triage`.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import msgspec

from unslow.facts.commands import Commands
from unslow.facts.knob import Change
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Absence, Amount, Unknown, estimated_fact, not_supported, reported_fact
from unslow.look import openai_api
from unslow.look.command_writer import NOTHING_AT_HAND, AtHand
from unslow.look.openai_api import ListedModel, Server, Timings, Usage, parse_usage, parse_words
from unslow.look.processes import Process, ProcessSigns
from unslow.look.requests import PartialAnswer, Question, Reply, Target, read_whole_answer, thinking_tokens
from unslow.look.server_answers import value_at
from unslow.look.system import ExchangeError, Line, LookError, System

NAME = "OpenAI-compatible"
PORTS: tuple[int, ...] = ()
RANK = 9
PROCESSES = ProcessSigns(())  # any program can be such a server
CLOCK, CLOCK_AND_CHUNKS = "client clock", "client clock, one token for each piece of the stream"
SERVER_CLOCK = "server timings"
_UNTOLD = (
    "version", "command", "gpu_layers", "layers", "slots", "kv_type_k", "kv_type_v", "flash_attention", "batch",
    "ubatch", "threads", "backends", "buffers", "busy_slots", "running_requests",
)  # fmt: skip
_HOW = "run unslow on the machine of the server, or give its log to `unslow triage`"
_SHOWN_MODELS = 5
_BY_OWNER = {"tabbyapi": "TabbyAPI (exllama)"}  # Servers that say who they are in their list of models
_TEXT, _CHAT = "/v1/completions", "/v1/chat/completions"
_CHAT_FIRST = ("LM Studio", "TGI", "Transformers", "OpenAI")
_RUNS_ON = ("vLLM", "SGLang")  # these know `ignore_eos`; others may refuse what they do not know
_NOT_THERE = re.compile(r"answered (?:400|404|405|422|501)\b")


class ServerTimes(NamedTuple):
    """What is known of the server's own times and counts."""

    prefill_s: float | None = None
    decode_s: float | None = None
    queue_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int | None = None


class _Metrics(msgspec.Struct):
    """The `metrics` object of vLLM."""

    time_to_first_token_ms: Amount | None = None
    generation_time_ms: Amount | None = None
    queue_time_ms: Amount | None = None


def find(processes: Sequence[Process]) -> list[Process]:  # noqa: ARG001 (the contract of a runtime)
    """None: such a server can be any program."""
    return []


def read(process: Process, api_key: str) -> tuple[Subject, ...]:  # noqa: ARG001 (the contract of a runtime)
    """Nothing: none is found by its process."""
    return ()


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """The models that a server lists; None where it lists none in OpenAI's way."""
    server = Server(system, url.rstrip("/").removesuffix("/v1"), api_key)
    answer = server.ask("/v1/models")
    if answer.status in openai_api.LOCKED:
        reason, hint = openai_api.REFUSED if api_key else openai_api.WANTED
        raise LookError(f"{server.url} {reason}", Absence.FAILED, hint)
    models = openai_api.parse_model_list(openai_api.json_if_ok(answer), f"{server.url}/v1/models")
    return None if models is None else (_subject(server.url, models),)


def _subject(url: str, models: list[ListedModel]) -> Subject:
    source = f"{url}/v1/models"
    facts: dict[str, Any] = dict.fromkeys(_UNTOLD, not_supported("OpenAI's API does not report it", _HOW))
    owners = {model.owner.lower() for model in models}
    facts["name"] = reported_fact(next((name for owner, name in _BY_OWNER.items() if owner in owners), NAME), source)
    facts["url"] = reported_fact(url, "given")
    if len(models) != 1:  # a list of one is taken for what is loaded; a longer one is what could be
        shown = ", ".join(model.name for model in models[:_SHOWN_MODELS])
        more = f" and {len(models) - _SHOWN_MODELS} more" if len(models) > _SHOWN_MODELS else ""
        which = not_supported(f"the server lists {shown}{more}, and does not say which of them is loaded", _HOW)
        which = which if models else Unknown("the server lists no model", "load one")
        return Subject(runtime=Runtime(state=which).with_facts(context_length=which, **facts), model=Model(name=which))
    facts["state"] = estimated_fact("loaded", f"{source}: the only model")
    model = Model(name=reported_fact(models[0].name, source), path=models[0].root)
    return Subject(runtime=Runtime().with_facts(context_length=models[0].context_length, **facts), model=model)


def commands_for(
    changes: Sequence[Change],
    runtime: Runtime,  # noqa: ARG001 (the contract of a runtime)
    at_hand: AtHand = NOTHING_AT_HAND,  # noqa: ARG001
) -> Commands:
    """Nothing: what the settings of an unknown program are called is not known."""
    return Commands(left_out=tuple((change, f"{NAME} has no setting for it") for change in changes))


def ask(system: System, target: Target, question: Question, heard: PartialAnswer) -> Reply:
    """One request for that many tokens, at whichever of the two addresses the server has.

    OpenAI's interface has no timings of its own: the client's clock has to do, unless the server adds them. The first
    token ends the wait for the prompt, the queue and the way there; n tokens arrive in n - 1 steps after it.
    """
    first, second = (_CHAT, _TEXT) if target.runtime.startswith(_CHAT_FIRST) else (_TEXT, _CHAT)
    try:
        return _ask(system, target, question, heard, first)
    except LookError as error:
        if heard.arrivals or not _NOT_THERE.search(error.why):
            raise
    return _ask(system, target, question, heard, second)


def _ask(system: System, target: Target, question: Question, heard: PartialAnswer, path: str) -> Reply:
    server, body = target.server(system), body_of(target, question, path)
    shown = path == _TEXT and question.stream
    if question.stream:
        with closing(server.stream(path, body, question.deadline_s, question.silence_s)) as lines:
            usage, extras = listen(lines, heard)
        return reply_of(usage, extras, question, heard, heard.last_s, shown=shown)
    answer, total_s = read_whole_answer(server, path, body, question)
    words = parse_words(answer)
    heard.keep_text(words.text if words and not words.is_thought else "")
    usage, extras = parse_usage(answer) or Usage(), parse_server_times(answer) or ServerTimes()
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


def listen(lines: Iterable[Line], heard: PartialAnswer) -> tuple[Usage, ServerTimes]:
    """What was counted and timed; LookError where the stream carries an error, no text at all, or no end."""
    usage, extras, ended = Usage(), ServerTimes(), False
    for seconds, text in lines:
        event = openai_api.parse_event(text)
        if event is None:
            ended = ended or (text.startswith("data:") and openai_api.is_end(text))
            continue
        heard.last_s = seconds
        usage, extras = parse_usage(event) or usage, parse_server_times(event) or extras
        # what comes after the last word says why the answer ended, or what was counted
        choice = value_at(event, "choices", 0)
        last = choice.get("finish_reason") if isinstance(choice, dict) else isinstance(event.get("usage"), dict)
        ended = ended or bool(last)
        words = parse_words(event)
        if words and words.is_thought:
            heard.add_thought(seconds)
        elif words:
            heard.piece(seconds, words.text)
    if not heard.arrivals:
        raise LookError("the server returned an empty answer")
    if not ended:
        raise ExchangeError("broke_off", "the response broke off: it has no end marker")
    return usage, extras


def reply_of(
    usage: Usage, extras: ServerTimes, question: Question, heard: PartialAnswer, total_s: float, *, shown: bool
) -> Reply:
    """The reply; what was computed of the prompt is what the cache did not have."""
    counted = extras.generated_tokens or usage.generated_tokens
    generated = counted or len(heard.arrivals)
    if not generated:
        raise LookError("the server does not count its tokens, and the response came in one piece")
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


def parse_server_times(event: dict[str, Any]) -> ServerTimes | None:
    """The times in an event; None where there are none, or none that can be.

    `timings` are added by whatever wraps llama.cpp, `metrics` by vLLM where it was started with
    --enable-per-request-metrics: the time to the first token begins when the request leaves the queue, and generating
    begins with the first token, so that n tokens are n - 1 steps.
    """
    try:
        if "timings" in event:
            times = msgspec.convert(event["timings"], Timings)
            counts = (times.prompt_n, times.cache_n, times.predicted_n)
            return ServerTimes(times.prompt_ms / 1000, times.predicted_ms / 1000, None, *counts)
        if "metrics" in event:
            told = msgspec.convert(event["metrics"], _Metrics)
            waits = (told.time_to_first_token_ms, told.generation_time_ms, told.queue_time_ms)
            prefill_s, decode_s, queue_s = (None if wait is None else wait / 1000 for wait in waits)
            return ServerTimes(prefill_s, decode_s, queue_s)
    except msgspec.ValidationError:
        return None
    return None
