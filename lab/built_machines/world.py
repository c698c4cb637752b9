"""A machine that is written down instead of looked at: files, commands and answers, seen through the usual door."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NoReturn

from unslow.facts.values import Absence
from unslow.look.system import Answer, FinishedCommand, Line, Live, LookError

TICK_S = 0.1
"""What passes between two looks at the clock."""
TAKEN_AT = "2026-01-01T00:00:00+00:00"


@dataclass
class World:
    """Answers by path, command line, URL or name; a list answers in turn and then with its last; else nothing is there.

    Every folder on the way to a file or link holds it.
    """

    files: dict[str, str | list[str]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    http: dict[str, Any] = field(default_factory=dict)
    asks: dict[str, Any] = field(default_factory=dict)
    ticks: Iterator[int] = field(default_factory=count)

    def add(self, files: Mapping[str, str | list[str]] | None = None, **more: dict[str, Any]) -> "World":
        """The same world with more in it."""
        self.files |= files or {}
        for name, answers in more.items():
            getattr(self, name).update(answers)
        return self

    def _get(self, answers: Mapping[str, Any], key: str) -> Any:
        if key not in answers:
            raise LookError(f"{key}: not there", Absence.NOT_FOUND)
        answer = answers[key]
        if isinstance(answer, LookError):
            raise answer
        return answer

    def read_bytes(self, path: str, limit: int = 2**24) -> bytes:
        answer = self._get(self.files, path)
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        return str(answer).encode()[:limit]

    def read_head(self, path: str, limit: int) -> bytes:
        return self.read_bytes(path, limit)

    def read_tail(self, path: str, limit: int) -> bytes:
        return self.read_bytes(path)[-limit:]

    def list_dir(self, path: str) -> list[str]:
        start = f"{path.rstrip('/')}/"
        names = {
            known[len(start) :].partition("/")[0] for known in (*self.files, *self.links) if known.startswith(start)
        }
        if not names:
            raise LookError(f"{path}: not there", Absence.NOT_FOUND)
        return sorted(names)

    def read_link(self, path: str) -> str:
        return str(self._get(self.links, path))

    def run(self, command: Sequence[str], timeout_s: float = 0) -> FinishedCommand:  # noqa: ARG002 (the door's signature)
        return FinishedCommand(0, self._get(self.commands, " ".join(command)), "")

    def request(
        self,
        method: str,
        url: str,
        body: Any = None,  # noqa: ARG002
        headers: Mapping[str, str] | None = None,  # noqa: ARG002
        timeout_s: float = 0,  # noqa: ARG002
    ) -> Answer:
        answer = self._get(self.http, f"{method} {url}")
        return answer if isinstance(answer, Answer) else Answer(200, str(answer).encode(), "application/json")

    def stream(
        self,
        url: str,
        body: Any,  # noqa: ARG002
        headers: Mapping[str, str] | None = None,  # noqa: ARG002
        timeout_s: float = 0,  # noqa: ARG002
        silence_s: float = 0,  # noqa: ARG002
    ) -> Iterator[Line]:
        raise LookError(f"{url}: nobody generates on a machine that was built", Absence.NOT_LOOKED)

    def ask(self, name: str, question: Callable[[], Any]) -> Any:  # noqa: ARG002
        return self._get(self.asks, name)

    def now(self) -> str:
        return TAKEN_AT

    def clock(self) -> float:
        return round(next(self.ticks) * TICK_S, 3)

    def sleep(self, seconds: float) -> None:
        """No time passes but by looking at the clock."""

    def live(self) -> Live:
        return _nothing_lives()


def _nothing_lives() -> NoReturn:
    raise LookError("a machine that was built is not there", Absence.NOT_LOOKED)
