"""One request for a completion, of any runtime: to whom, what is asked, what has come so far, what came back."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from unslow.facts.bench import FailureKind
from unslow.facts.run import Completion
from unslow.facts.values import Absence
from unslow.look.openai_api import OK, Server, checked_answer, json_if_ok
from unslow.look.system import ExchangeError, LookError, System, try_look

KEPT_CHARS = 32_768
"""Of the text, for the next turn of a conversation; an answer can be far longer than a reply may hold."""
_LONGEST_TAG = 16
_BEGINS, _ENDS = ("<think>", "[THINK]"), ("</think>", "[/THINK]")

_SHOWN = 200

_TIMEOUT_S = 20.0
_MOST_TOKENS = 2**20

FIRST_PLACE = 16  # Tokens that come before the first place: without them anything may follow
MOST_SCORED_TOKENS = 4096
_SPARE = 16


class Plan(NamedTuple):
    """How long to measure, where on the server, and what is known of it beforehand."""

    seconds_per_completion: float = 6.0
    slot: int | None = None
    slots: tuple[int, ...] = ()
    """Slots of a llama-server that hold no conversation: requests at the same time are spread over them."""
    at_once: int = 0  # Requests at the same time; 0 for as many as there are such slots, or the trial's usual number
    context: int | None = None
    """Tokens that a prompt and its answer may have together; None for the context that the target tells."""
    shared: bool = True
    """Whether the slots of a llama-server share one cache, so that what others hold there leaves less room."""
    seconds: float = 20.0  # About how long a trial beyond the usual measurement may take
    watch_s: float = 6.0  # How long a trial that only watches does so
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    """As measured already; else a trial asks a short question first, to learn how much fits into its time."""


class Target(NamedTuple):
    """A server to measure: its process is known where it runs on this machine."""

    url: str
    api_key: str = ""
    pid: int | None = None
    runtime: str = "llama.cpp"
    model: str = ""
    context: int | None = None
    """The context that the model is loaded with, for servers that would load it anew for another."""

    def server(self, system: System) -> Server:
        return Server(system, self.url, self.api_key)


class Question(NamedTuple):
    """One request of a benchmark."""

    prompt: str
    tokens: int
    slot: int | None = None
    keep: bool = False  # Whether a prompt cache may answer, and keep it; else every token of the prompt is computed
    greedy: bool = False
    """Whether to take the likeliest token without any sampler, where the runtime can; else as it is set up."""
    stream: bool = True
    silence_s: float = 300.0  # A server that says nothing for so long has stalled
    deadline_s: float = 3600.0
    cache_as_set: bool = False
    """Whether it is left to the server's own settings what its cache does, as most clients leave it."""
    alone: bool = False
    """Whether no other question is asked meanwhile, so that the server's counters before and after time this one."""


class AskError(LookError):
    """A request that was not answered whole: how it failed, and how many pieces had come by then."""

    def __init__(
        self, kind: FailureKind, why: str, pieces: int = 0, how_to_get: str = "", *, arrivals_s: Sequence[float] = ()
    ) -> None:
        super().__init__(why, Absence.FAILED, how_to_get)
        self.kind, self.pieces, self.arrivals_s = kind, pieces, tuple(arrivals_s)


class ScoredText(NamedTuple):
    """A text, at how many places to ask at most, and within which time and context."""

    text: str
    places: int = 200
    seconds: float = 60.0
    context: int | None = None
    slot: int | None = None


class PartialAnswer:
    """Filled while an answer streams in, so that one that breaks off still tells how far it came."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: the question is asked once more."""
        self.arrivals: list[float] = []
        self.thoughts = 0  # Pieces that the model thought rather than said
        self.last_s = 0.0  # When anything came, text or not
        self._kept: list[str] = []
        self._room = KEPT_CHARS
        self._tail, self._thinks = "", False

    def piece(self, seconds: float, text: Any) -> None:
        """A piece of plain text, in which a thought stands between tags; anything else shows nothing."""
        self.arrivals.append(seconds)
        self.last_s = seconds
        if not isinstance(text, str):
            return
        self.keep_text(text)
        thought = self._thinks
        if thought or self._tail or "<" in text or "[" in text:
            # Whether any of the text is thought, tags and all; a tag may be spread over pieces
            seen = self._tail + text
            while tag := next((tag for tag in (_ENDS if self._thinks else _BEGINS) if tag in seen), ""):
                seen = seen.partition(tag)[2]
                self._thinks, thought = not self._thinks, True
            tail = seen[-_LONGEST_TAG:]
            self._tail = tail if "<" in tail or "[" in tail else ""
        self.thoughts += thought

    def add_thought(self, seconds: float) -> None:
        """A piece that the server itself calls a thought; the text of a next turn is without it."""
        self.arrivals.append(seconds)
        self.last_s = seconds
        self.thoughts += 1

    def keep_text(self, text: Any) -> None:
        """Text as far as there is room for it, and no arrival; anything else shows nothing."""
        if isinstance(text, str) and self._room > 0:
            self._kept.append(text[: self._room])
            self._room -= len(text)

    @property
    def text(self) -> str:
        return "".join(self._kept)


def thinking_tokens(heard: PartialAnswer, generated: int, counted: int | None, *, shown: bool) -> int | None:
    """How many tokens were thought: as counted by the server, else by pieces where each is one token.

    `shown` is whether all that is generated comes as text, so that no thoughts in it are no thoughts at all.
    """
    if counted is not None:
        return min(counted, generated)
    if len(heard.arrivals) == generated or (shown and not heard.thoughts):
        return heard.thoughts
    return None


def read_whole_answer(
    server: Server, path: str, body: dict[str, Any], question: Question
) -> tuple[dict[str, Any], float]:
    """The JSON of an answer, and when all of it was there: POST and wait, as long as the question allows."""
    start = server.system.clock()
    answer = server.ask(path, "POST", body, question.deadline_s)
    total_s = max(0.0, server.system.clock() - start)
    if answer.status != OK:
        text = answer.body[:_SHOWN].decode("utf-8", "replace").strip()
        raise ExchangeError("error", f"{server.url}{path} answered {answer.status}: {text}")
    return checked_answer(answer.json()), total_s


def scored_tokens(system: System, target: Target, text: ScoredText) -> list[int]:
    """The text in tokens, as far as the context has room; LookError where the server has no tokenizer to ask."""
    tokens = read_tokens(system, target, text.text)
    if tokens is None:
        raise LookError(f"{target.runtime} did not return the tokens of the text", Absence.NOT_SUPPORTED)
    room = MOST_SCORED_TOKENS if text.context is None else min(MOST_SCORED_TOKENS, text.context - _SPARE)
    if min(len(tokens), room) <= FIRST_PLACE + 1:
        raise LookError("the text does not fit into the context")
    return tokens[:room]


def scored_places(length: int, most: int) -> tuple[int, ...]:
    """Numbers of tokens, each of which is to be expected from those before it."""
    step = max(1, math.ceil((length - FIRST_PLACE) / max(1, most)))
    return tuple(range(FIRST_PLACE, length, step))


def read_tokens(system: System, target: Target, text: str) -> list[int] | None:
    """The tokens of a text as the server would read it, special ones too; None where it has no tokenizer to ask."""
    path, model = "/tokenize", target.model
    body: dict[str, Any] = {}
    if target.runtime.endswith("llama.cpp"):
        named = {"model": model} if model else {}  # a router wants it
        body = {"content": text, "add_special": True, **named}
    elif target.runtime.endswith(("vLLM", "SGLang")):
        body = {"model": model, "prompt": text, "add_special_tokens": True}
    elif target.runtime.endswith("TGI"):  # a chat, whose template counts too
        path, body = "/chat_tokenize", {"model": model, "messages": [{"role": "user", "content": text}]}
    elif target.runtime.endswith("KoboldCpp"):
        path, body = "/api/extra/tokencount", {"prompt": text}
    answer = try_look(None, target.server(system).ask, path, "POST", body, _TIMEOUT_S) if body else None
    return parse_tokens(json_if_ok(answer)) if answer else None


def parse_tokens(answer: Any) -> list[int] | None:
    """The numbers of the tokens in an answer; some servers give each as an object with its text."""
    if isinstance(answer, dict):
        answer = next((answer[name] for name in ("tokens", "ids", "tokenize_response") if name in answer), None)
    if not isinstance(answer, list) or not 0 < len(answer) < _MOST_TOKENS:
        return None
    tokens = [token.get("id") if isinstance(token, dict) else token for token in answer]
    return [t for t in tokens if type(t) is int] if all(type(t) is int for t in tokens) else None


class TimedCompletion(NamedTuple):
    """A completion and who timed it."""

    completion: Completion
    clock: str
    prompt_timed: bool = True  # Whether the time of the prompt is the server's own, without the way there and the queue
    thinking_tokens: int | None = None


class Reply(NamedTuple):
    """What came back: the same meaning on every runtime, or None where it does not tell."""

    prompt_tokens: int  # Those that were computed for this request
    generated_tokens: int
    arrivals_s: tuple[float, ...]  # When each piece of text came, since the request was sent
    total_s: float
    clock: str  # Whose times these are
    cached_tokens: int = 0
    thinking_tokens: int | None = None
    ended_early: bool = False
    server_prefill_s: float | None = None
    server_decode_s: float | None = None  # For the tokens after the first
    server_load_s: float | None = None
    server_queue_s: float | None = None
    text: str = ""  # The start of the answer, for the next turn of a conversation; kept nowhere
    drafted_tokens: int = 0
    accepted_tokens: int = 0  # Of speculative decoding, where the server counts it
