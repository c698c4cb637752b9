"""A server that is asked over HTTP: a key goes out with every question and comes back with no answer."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from unslow.facts.values import Absence
from unslow.look.keys import headers, hushed
from unslow.look.system import Answer, LookError, System
from unslow.look.system.door import HTTP_TIMEOUT_S, SILENCE_S, STREAM_TIMEOUT_S, ExchangeError, Line

OK = 200
LOCKED = (401, 403)
_SHORT = 120
WANTED = ("wants an API key", "give it with --api-key")
_REASONS = {
    401: WANTED,
    403: ("refuses this key", "give the right one with --api-key"),
    404: ("does not know this address", ""),
}
REFUSED = ("refuses the key that was given", "give the right one with --api-key")
_MISSING = (404, 405, 501)


def json_of(answer: Answer) -> Any:
    """The JSON of an answer that went well; None for any other."""
    try:
        return answer.json() if answer.status == OK else None
    except LookError:
        return None


class Server(NamedTuple):
    """Where a server is, and the key that it wants."""

    system: System
    url: str
    api_key: str = ""

    def ask(self, path: str, method: str = "GET", body: Any = None, timeout_s: float = HTTP_TIMEOUT_S) -> Answer:
        """An answer of whatever status; LookError where there is none."""
        try:
            answer = self.system.request(method, self.url + path, body, headers(self.api_key), timeout_s)
        except LookError as error:
            raise self._hushed(error) from None
        return Answer(answer.status, hushed(answer.body.decode("utf-8", "replace"), self.api_key).encode())

    def json(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """The JSON of an answer; LookError with the reason for any other."""
        answer = self.ask(path, method, body)
        self._check(path, answer)
        return answer.json()

    def text(self, path: str) -> str:
        """The text of an answer."""
        answer = self.ask(path)
        self._check(path, answer)
        return answer.body.decode("utf-8", "replace")

    def stream(
        self, path: str, body: Any, timeout_s: float = STREAM_TIMEOUT_S, silence_s: float = SILENCE_S
    ) -> Iterator[Line]:
        """POST, and the answer line by line."""
        key = self.api_key
        try:
            for line in self.system.stream(self.url + path, body, headers(key), timeout_s, silence_s):
                yield Line(line.seconds, hushed(line.text, key)) if key else line
        except LookError as error:
            raise self._hushed(error) from None

    def _check(self, path: str, answer: Answer) -> None:
        if answer.status == OK:
            return
        absence = Absence.NOT_FOUND if answer.status in _MISSING else Absence.FAILED
        reason, hint = _REASONS.get(answer.status, (f"answered {answer.status}", ""))
        if answer.status in LOCKED and self.api_key:
            reason, hint = REFUSED
        raise LookError(f"{self.url}{path}: the server {reason}"[: _SHORT * 2], absence, hint)

    def _hushed(self, error: LookError) -> LookError:
        why, hint = hushed(error.why, self.api_key), hushed(error.how_to_get, self.api_key)
        if isinstance(error, ExchangeError):
            return ExchangeError(error.kind, why, error.absence, hint)
        return LookError(why, error.absence, hint)
