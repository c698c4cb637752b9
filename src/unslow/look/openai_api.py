"""A server that is asked over HTTP, and what OpenAI's interface gives: its models, the events of an answer."""

from collections.abc import Generator
from typing import Any, NamedTuple

import msgspec

from unslow.facts.masking import key_headers, without_keys
from unslow.facts.values import Absence, Amount, Count, Fact, not_found, reported_fact
from unslow.look import system as looking
from unslow.look.server_answers import value_at, word_at
from unslow.look.system import Answer, ExchangeError, Line, LookError, System, try_look

OK = 200
LOCKED = (401, 403)
_SHORT = 120
WANTED = ("requires an API key", "give it with --api-key")
_REASONS = {
    401: WANTED,
    403: ("refuses this key", "give the right one with --api-key"),
    404: ("does not know this address", ""),
}
REFUSED = ("refuses the key that was given", "give the right one with --api-key")
_MISSING = (404, 405, 501)

MOST_MODELS = 1000
_MOST_TOKENS = 2**40

_SHOWN = 200
_TEXTS, _THOUGHTS = ("content", "text"), ("reasoning_content", "reasoning")


class ListedModel(NamedTuple):
    """One model of the list."""

    name: str
    root: Fact[str]  # Where its files are, by vLLM and SGLang
    context_length: Fact[int]
    owner: str


class Usage(NamedTuple):
    """What the server counted; None where it does not say."""

    prompt_tokens: int | None = None
    generated_tokens: int | None = None
    cached_tokens: int = 0
    thinking_tokens: int | None = None


class StreamedWords(NamedTuple):
    """The words of one event, or the thought."""

    text: str
    is_thought: bool = False


class Timings(msgspec.Struct):
    """The `timings` object of llama-server, which whatever wraps llama.cpp passes on with its answers."""

    prompt_n: Count
    prompt_ms: Amount
    predicted_n: Count
    predicted_ms: Amount
    cache_n: Count = 0
    draft_n: Count = 0
    draft_n_accepted: Count = 0


class Server(NamedTuple):
    """Where a server is, and the key that it wants."""

    system: System
    url: str
    api_key: str = ""

    def ask(
        self, path: str, method: str = "GET", body: Any = None, timeout_s: float = looking.HTTP_TIMEOUT_S
    ) -> Answer:
        """An answer of whatever status; LookError where there is none."""
        try:
            answer = self.system.request(method, self.url + path, body, key_headers(self.api_key), timeout_s)
        except LookError as error:
            raise self._without_key(error) from None
        return Answer(answer.status, without_keys(answer.body.decode("utf-8", "replace"), self.api_key).encode())

    def json(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """The JSON of an answer; LookError with the reason for any other."""
        return self._check_status(path, self.ask(path, method, body)).json()

    def text(self, path: str) -> str:
        """The text of an answer."""
        return self._check_status(path, self.ask(path)).body.decode("utf-8", "replace")

    def stream(
        self, path: str, body: Any, timeout_s: float = looking.STREAM_TIMEOUT_S, silence_s: float = looking.SILENCE_S
    ) -> Generator[Line, None, None]:
        """POST, and the answer line by line; to be closed by whoever may stop listening before its end."""
        key = self.api_key
        try:
            for line in self.system.stream(self.url + path, body, key_headers(key), timeout_s, silence_s):
                yield Line(line.seconds, without_keys(line.text, key)) if key else line
        except LookError as error:
            raise self._without_key(error) from None

    def _check_status(self, path: str, answer: Answer) -> Answer:
        if answer.status == OK:
            return answer
        absence = Absence.NOT_FOUND if answer.status in _MISSING else Absence.FAILED
        reason, hint = _REASONS.get(answer.status, (f"answered {answer.status}", ""))
        if answer.status in LOCKED and self.api_key:
            reason, hint = REFUSED
        raise LookError(f"{self.url}{path}: the server {reason}"[: _SHORT * 2], absence, hint)

    def _without_key(self, error: LookError) -> LookError:
        why, hint = without_keys(error.why, self.api_key), without_keys(error.how_to_get, self.api_key)
        if isinstance(error, ExchangeError):
            return ExchangeError(error.kind, why, error.absence, hint)
        return LookError(why, error.absence, hint)


def json_if_ok(answer: Answer) -> Any:
    """The JSON of an answer that went well; None for any other."""
    return try_look(None, answer.json) if answer.status == OK else None


def parse_model_list(data: Any, source: str) -> list[ListedModel] | None:
    """The models of an answer; those without a name are left out."""
    models = value_at(data, "data")
    if not isinstance(models, list):
        return None
    found = []
    for model in models[:MOST_MODELS]:
        if name := word_at(model, "id"):
            root, length = word_at(model, "root"), _count(value_at(model, "max_model_len"))
            place = reported_fact(root, source) if root else not_found(f"{source} does not say where the model is")
            context = reported_fact(length, source) if length else not_found(f"{source} does not say the context")
            found.append(ListedModel(name, place, context, word_at(model, "owned_by")))
    return found


def parse_event(text: str) -> dict[str, Any] | None:
    """The event of a `data:` line; None for any other line and for the end."""
    if not text.startswith("data:") or is_end(text):
        return None
    return parse_object(text[5:])


def is_end(text: str) -> bool:
    """Whether a line says that nothing more comes."""
    return len(text) < len("data:  [DONE]  ") and text[5:].strip() in ("", "[DONE]")


def parse_object(text: str) -> dict[str, Any]:
    """One JSON object that is not an error."""
    try:
        event = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise LookError(f"the server streamed something that is not JSON: {text[:60]!r}") from error
    return checked_answer(event)


def checked_answer(event: Any) -> dict[str, Any]:
    """An answer that is an object and no error; LookError for any other."""
    if not isinstance(event, dict):
        raise LookError(f"the server sent something that is not an event: {str(event)[:60]!r}")
    if event.get("error"):
        raise ExchangeError("error", f"the server answered with an error: {str(event['error'])[:_SHOWN]}")
    return event


def parse_words(event: dict[str, Any]) -> StreamedWords | None:
    """The words of an event; None where it has none, such as the one that only names the role."""
    choice = value_at(event, "choices", 0)
    if not isinstance(choice, dict):
        return None
    part = choice.get("delta") or choice.get("message") or choice
    for name in (*_TEXTS, *_THOUGHTS):
        if isinstance(text := value_at(part, name), str) and text:
            return StreamedWords(text, is_thought=name in _THOUGHTS)
    return None


def parse_usage(event: dict[str, Any]) -> Usage | None:
    """The counts of an event; None where it has none."""
    usage = event.get("usage")
    if not isinstance(usage, dict):
        return None
    return Usage(
        prompt_tokens=_count(usage.get("prompt_tokens")),
        generated_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=_count(value_at(usage, "prompt_tokens_details", "cached_tokens")) or 0,
        thinking_tokens=_count(value_at(usage, "completion_tokens_details", "reasoning_tokens")),
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST_TOKENS else None
