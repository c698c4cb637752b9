"""How llama-server is measured: its own `/completion`, the slots that are free, the scores of a given text.

`/completion` takes any slot, has no early end, and tells the server's timings. It counts the first token, which comes
from the logits of the prompt, and times the steps after it: `predicted_n` tokens in `predicted_ms` are n - 1 steps.
`prompt_n` are the tokens that were computed, `cache_n` those that were not.
"""

import hashlib
import re
from collections.abc import Iterable
from contextlib import closing
from typing import Annotated, Any, NamedTuple

import msgspec

from unslow.facts.runtime import Runtime
from unslow.facts.values import Absence, Count, Known
from unslow.facts.verification import LogProbability, TokenScores
from unslow.look import requests
from unslow.look.openai_api import OK, Server, Timings, json_if_ok, parse_event
from unslow.look.processes import Process
from unslow.look.requests import PartialAnswer, Question, Reply, ScoredText, Target
from unslow.look.runtimes._gguf_process import read_api_key
from unslow.look.server_answers import objects_at, value_at
from unslow.look.system import ExchangeError, Line, LookError, System, try_look

CLOCK = "server timings"
GREEDY = {"samplers": ["top_k"], "top_k": 1, "temperature": 0.0}
"""One look over the logits: the chain always ends in a draw, here from the one token that is left."""
_PATH = "/completion"
_TEMPLATE_PATH = "/apply-template"
_TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is the capital of France?"},
    {"role": "assistant", "content": "Paris."},
    {"role": "user", "content": "And of Italy?"},
]
_LATER = re.compile(r"\d+|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*")
"""Some templates write the day of today."""
_BROKE_OFF = "the answer broke off: it ended without the server's timings"
_NOT_PARSED = "does not match the expected"
_FEWEST_PIECES = 12
UNPARSED = "client clock, one token for each piece of a response that the server could not parse"
_CERTAIN = 10_000.0  # Far above the logits of any model


class FreeSlots(NamedTuple):
    """Slots that hold no conversation, so that measuring on them pushes none out; and how many work for others."""

    unused: tuple[int, ...] = ()
    busy: int = 0
    talking: int = 0  # Slots that hold a conversation: their task did more than measure


class _Top(msgspec.Struct):
    id: Count


class _Token(msgspec.Struct):
    """One entry of `completion_probabilities`, as llama-server has it since the end of 2024."""

    id: Count
    logprob: LogProbability
    top_logprobs: Annotated[list[_Top], msgspec.Meta(min_length=1)]


class _Answer(msgspec.Struct):
    completion_probabilities: Annotated[list[_Token], msgspec.Meta(min_length=1)]


def ask(system: System, target: Target, question: Question, heard: PartialAnswer) -> Reply:
    """One request for that many tokens, timed by the server and by this clock.

    A server that binds every answer to a grammar fails where one goes on past its end: then it may end there. One that
    cannot tell the parts of an answer apart says so once it has been sent: what came is timed by this clock.
    """
    try:
        return _ask(system, target, question, heard, {})
    except ExchangeError as error:
        if error.kind == "error" and _NOT_PARSED in error.why and len(heard.arrivals) >= _FEWEST_PIECES:
            tokens, arrivals = len(heard.arrivals), tuple(heard.arrivals)
            return Reply(0, tokens, arrivals_s=arrivals, total_s=arrivals[-1], clock=UNPARSED, text=heard.text)
        if error.kind != "error" or "grammar" not in error.why or not heard.arrivals:
            raise
    heard.forget()
    return _ask(system, target, question, heard, {"ignore_eos": False})


def _ask(system: System, target: Target, question: Question, heard: PartialAnswer, changes: dict[str, Any]) -> Reply:
    server, body = target.server(system), body_of(target, question) | changes
    if question.stream:
        with closing(server.stream(_PATH, body, question.deadline_s, question.silence_s)) as lines:
            timings = listen(lines, heard)
        return reply_of(parse_timings(timings), question, heard, heard.last_s)
    answer, total_s = requests.read_whole_answer(server, _PATH, body, question)
    heard.keep_text(answer.get("content"))
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


def listen(lines: Iterable[Line], heard: PartialAnswer) -> Any:
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


def reply_of(times: Timings, question: Question, heard: PartialAnswer, total_s: float) -> Reply:
    """The reply, in whose times n tokens are n - 1 steps already."""
    return Reply(
        prompt_tokens=times.prompt_n,
        cached_tokens=times.cache_n,
        generated_tokens=times.predicted_n,
        thinking_tokens=requests.thinking_tokens(heard, times.predicted_n, None, shown=question.stream),
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


def read_key_of(system: System, runtime: Runtime) -> str:
    """The API key that the server itself was started with, where its process can be read; empty otherwise."""
    pid = runtime.process.pid
    return read_api_key(Process(system, pid.value, "")) if isinstance(pid, Known) else ""


def read_free_slots(server: Server) -> FreeSlots:
    """What /slots says now; nothing where the server does not tell."""
    answer = try_look(None, server.ask, "/slots")
    return parse_free_slots(json_if_ok(answer)) if answer else FreeSlots()


def parse_free_slots(slots: Any) -> FreeSlots:
    """The slots that hold no conversation, and how many are at work; llama-server names a task where there was one."""
    known = objects_at({"slots": slots}, "slots")
    # a task that ran past the end of its answer was a benchmark's: conversations don't
    talking = [slot for slot in known if "id_task" in slot and value_at(slot, "params", "ignore_eos") is not True]
    idle = [slot for slot in known if not slot.get("is_processing")]
    free = [slot.get("id") for slot in idle if slot not in talking]
    return FreeSlots(tuple(n for n in free if isinstance(n, int)), len(known) - len(idle), len(talking))


def score(system: System, target: Target, text: ScoredText) -> TokenScores:
    """Place by place, until all are asked or the time is over; one place at least.

    llama-server tells the probability of a token that it generates, so it is made to generate the one that follows. A
    bias makes the true token certain to be taken, and with `post_sampling_probs` off the probabilities are those of the
    model before any bias or sampler: `get_token_probabilities` in its server-common.cpp reads the logits themselves.
    The prompt stays in the cache, so each place costs the tokens since the last one.
    """
    server, tokens = target.server(system), requests.scored_tokens(system, target, text)
    end = system.clock() + text.seconds
    found: list[tuple[int, _Token]] = []
    for place in requests.scored_places(len(tokens), text.places):
        answer = server.ask(_PATH, "POST", scoring_body(target, tokens, place, text.slot), 300.0)
        if answer.status != OK:
            said = answer.body[:200].decode("utf-8", "replace").strip()
            raise LookError(f"{server.url}{_PATH} answered {answer.status}: {said}", Absence.FAILED)
        found.append((place, parse_token(answer.json(), tokens[place])))
        if system.clock() > end:
            break
    return TokenScores(
        tokens=tuple(tokens),
        at=tuple(place for place, _ in found),
        log_probabilities=tuple(min(0.0, token.logprob) for _, token in found),
        likeliest=tuple(token.top_logprobs[0].id for _, token in found),
    )


def scoring_body(target: Target, tokens: list[int], place: int, slot: int | None) -> dict[str, Any]:
    """The request that makes it generate the token of this place."""
    return {
        "prompt": tokens[:place],
        "n_predict": 1,
        "n_probs": 1,
        "post_sampling_probs": False,
        "logit_bias": [[tokens[place], _CERTAIN]],
        "cache_prompt": True,
        **GREEDY,
        **({"model": target.model} if target.model else {}),  # a router wants it
        **({} if slot is None else {"id_slot": slot}),
    }


def parse_token(answer: Any, wanted: int) -> _Token:
    """The token with its probability; LookError where there is none, as from a model that computes no numbers."""
    try:
        token = msgspec.convert(answer, _Answer).completion_probabilities[0]
    except msgspec.ValidationError as error:
        raise LookError(f"the server returned no probability of a token: {error}", Absence.NOT_SUPPORTED) from error
    if token.id != wanted:
        raise LookError("the server generated another token than requested", Absence.NOT_SUPPORTED)
    return token


def read_written_turns(system: System, target: Target) -> str:
    """A sign of the way that a conversation is written: two that are alike have the same; LookError where it is hidden.

    llama-server answers without any computing by its model (`/apply-template` in its server.cpp).
    """
    if not target.runtime.endswith("llama.cpp"):
        raise LookError(f"{target.runtime} does not show how it writes a conversation", Absence.NOT_SUPPORTED)
    named = {"model": target.model} if target.model else {}  # a router wants it
    answer = target.server(system).ask(_TEMPLATE_PATH, "POST", {"messages": _TURNS, **named}, 30.0)
    if answer.status != OK:
        raise LookError(f"{target.url}{_TEMPLATE_PATH} answered {answer.status}", Absence.NOT_SUPPORTED)
    prompt = value_at(answer.json(), "prompt")
    if not isinstance(prompt, str) or not prompt:
        raise LookError(f"{_TEMPLATE_PATH} returned no text", Absence.FAILED)
    return hashlib.sha256(_LATER.sub("", prompt).encode()).hexdigest()[:16]
