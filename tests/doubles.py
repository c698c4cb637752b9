"""Stand-ins for the world, used by many tests: a door that answers from dictionaries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from unslow.facts.values import Absence
from unslow.look.system import Answer, FinishedCommand, Line, LookError


@dataclass
class FakeSystem:
    """Answers what it was given, by path, command line or URL; a LookError as an answer is raised."""

    files: dict[str, str | bytes | LookError] = field(default_factory=dict)
    folders: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    commands: dict[str, FinishedCommand | LookError] = field(default_factory=dict)
    http: dict[str, Answer | LookError] = field(default_factory=dict)
    streams: dict[str, list[Line] | LookError] = field(default_factory=dict)
    asks: dict[str, Any] = field(default_factory=dict)
    sent: list[tuple[str, Any]] = field(default_factory=list)
    ticks: Iterator[int] = field(default_factory=count)

    def _get(self, answers: Mapping[str, Any], key: str) -> Any:
        if key not in answers:
            raise LookError(f"{key}: not there", Absence.NOT_FOUND)
        if isinstance(answers[key], LookError):
            raise answers[key]
        return answers[key]

    def read_bytes(self, path: str, limit: int = 0) -> bytes:
        data = self._get(self.files, path)
        return data.encode() if isinstance(data, str) else data

    def read_head(self, path: str, limit: int) -> bytes:
        return self.read_bytes(path)[:limit]

    def read_tail(self, path: str, limit: int) -> bytes:
        return self.read_bytes(path)[-limit:]

    def list_dir(self, path: str) -> list[str]:
        return sorted(self._get(self.folders, path))

    def read_link(self, path: str) -> str:
        return str(self._get(self.links, path))

    def run(self, command: Sequence[str], timeout_s: float = 0) -> FinishedCommand:
        return self._get(self.commands, " ".join(command))

    def request(
        self, method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None, timeout_s: float = 0
    ) -> Answer:
        self.sent.append((f"{method} {url}", body))
        return self._get(self.http, f"{method} {url}")

    def stream(
        self, url: str, body: Any, headers: Mapping[str, str] | None = None, timeout_s: float = 0, silence_s: float = 0
    ) -> Iterator[Line]:
        self.sent.append((f"STREAM {url}", body))
        yield from self._get(self.streams, url)

    def ask(self, name: str, question: Callable[[], Any]) -> Any:
        return self._get(self.asks, name)

    def now(self) -> str:
        return "2026-01-01T00:00:00+00:00"

    def clock(self) -> float:
        return next(self.ticks) / 10

    def sleep(self, seconds: float) -> None:
        """No time passes here but by asking for it."""

    def live(self) -> "FakeSystem":
        """Nothing here is live."""
        raise LookError("only a stand-in", Absence.NOT_LOOKED)


class Quiet:
    """Progress that remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def step(self, text: str, share: float) -> None:
        """Nothing is shown."""
