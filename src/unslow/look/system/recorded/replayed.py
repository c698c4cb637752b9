"""Answers from a recording."""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from unslow.facts.values import Absence
from unslow.look.system.door import (
    COMMAND_TIMEOUT_S,
    FILE_LIMIT_BYTES,
    HTTP_TIMEOUT_S,
    SILENCE_S,
    STREAM_TIMEOUT_S,
    Answer,
    Finished,
    Line,
    Live,
    LookError,
)
from unslow.look.system.recorded.recording import CLOCK, INDEX, Entry, entries, fitted, unpacked


class _Placed(NamedTuple):
    """An answer, and which line of the recording it stands on."""

    line: int
    entry: Entry


class RecordedSystem:
    """Answers from a recording; what was never asked was never seen. Any thread may ask."""

    def __init__(self, folder: Path) -> None:
        self._answers: dict[str, deque[_Placed]] = defaultdict(deque)
        for line, entry in enumerate(entries(folder / INDEX)):
            queue = self._answers[entry.question]
            queue.append(_Placed(line, queue[-1].entry if entry.again and queue else entry))
        self._clock = [(placed.line, placed.entry) for placed in self._answers.pop(CLOCK, ())]
        self._lock = Lock()
        self._at, self._seconds = -1, 0.0

    def holds(self, question: str) -> bool:
        """Whether the question was asked when this was recorded."""
        return question in self._answers

    def _entry(self, question: str) -> Entry:
        with self._lock:
            queue = self._answers.get(question)
            if not queue:
                raise LookError(f"not in the recording: {question}", Absence.NOT_LOOKED)
            line, entry = queue.popleft() if len(queue) > 1 else queue[0]
            self._at = line
        return entry

    def _next(self, question: str) -> Any:
        entry = self._entry(question)
        if entry.error:
            raise entry.failure()
        return entry.answer

    def read_bytes(self, path: str, limit: int = FILE_LIMIT_BYTES) -> bytes:
        return _bytes(self._next(f"file {path}"))

    def read_head(self, path: str, limit: int) -> bytes:
        return _bytes(self._next(f"head {path}"))

    def read_tail(self, path: str, limit: int) -> bytes:
        return _bytes(self._next(f"tail {path}"))

    def list_dir(self, path: str) -> list[str]:
        return fitted(list[str], self._next(f"folder {path}"))

    def read_link(self, path: str) -> str:
        return fitted(str, self._next(f"link {path}"))

    def run(self, command: Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S) -> Finished:
        return fitted(Finished, self._next(f"command {' '.join(command)}"))

    def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = HTTP_TIMEOUT_S,
    ) -> Answer:
        status, text, content_type = fitted(tuple[int, str, str], self._next(f"http {method} {url}"))
        return Answer(status, text.encode(), content_type)

    def stream(
        self,
        url: str,
        body: Any,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = STREAM_TIMEOUT_S,
        silence_s: float = SILENCE_S,
    ) -> Iterator[Line]:
        entry = self._entry(f"stream {url}")
        for seconds, text in unpacked(entry.answer):
            yield Line(seconds, text)
        if entry.error:
            raise entry.failure()

    def ask(self, name: str, question: Callable[[], Any]) -> Any:
        return self._next(f"ask {name}")

    def now(self) -> str:
        return fitted(str, self._next("now"))

    def clock(self) -> float:
        with self._lock:
            if not self._clock:
                raise LookError("not in the recording: the clock", Absence.NOT_LOOKED)
            place = min(bisect_right(self._clock, self._at, key=lambda c: c[0]), len(self._clock) - 1)
            self._at = max(self._at, self._clock[place][0])
            self._seconds = max(self._seconds, fitted(float, self._clock[place][1].answer))
            return self._seconds

    def sleep(self, seconds: float) -> None:
        """No need to wait for what has already happened."""

    def live(self) -> Live:
        raise LookError("a recording is not the machine itself", Absence.NOT_LOOKED)


def _bytes(value: Any) -> bytes:
    return fitted(str, value).encode("utf-8", "surrogateescape")
