"""The same door over a recording, and the recorder that makes one.

A recording is a folder with `recording.jsonl`: one answer of the world a line, in the order in which it was given. A
question asked twice is answered twice; after the last answer that one stays.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from unslow.facts.errors import UserError
from unslow.facts.masking import masked_command, masked_environment, masked_text
from unslow.facts.values import Absence
from unslow.look.system.door import (
    COMMAND_TIMEOUT_S,
    FILE_LIMIT_BYTES,
    HTTP_TIMEOUT_S,
    SILENCE_S,
    STREAM_TIMEOUT_S,
    Answer,
    ExchangeError,
    ExchangeFailure,
    Finished,
    Line,
    Live,
    LookError,
    System,
)

T = TypeVar("T")

INDEX = "recording.jsonl"
UNRECORDED = "secret "
"""How the name of a question starts whose answer is used and written down nowhere, such as a file of keys."""
_MOST_SOCKETS = 100_000
_SHORT = 200  # an error message; anything longer that is no JSON might hold a prompt
LARGEST_RECORDING_BYTES = 256 * 1024**2
KEPT_VARIABLES = ("LLAMA_", "GGML_", "CUDA_", "HIP_", "ROCR_", "HSA_", "OLLAMA_", "OMP_", "GOMP_", "VLLM_")


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer of the world, or why there was none."""

    question: str
    answer: Any = None
    error: str = ""
    absence: Absence = Absence.FAILED
    kind: ExchangeFailure | None = None
    """How an exchange with a server failed."""

    def failure(self) -> LookError:
        """The error as it was raised."""
        if self.kind:
            return ExchangeError(self.kind, self.error, self.absence)
        return LookError(self.error, self.absence)


class RecordedSystem:
    """Answers from a recording; what was never asked was never seen."""

    def __init__(self, folder: Path) -> None:
        self._answers: dict[str, deque[Entry]] = defaultdict(deque)
        for entry in _entries(folder / INDEX):
            self._answers[entry.question].append(entry)

    def holds(self, question: str) -> bool:
        """Whether the question was asked when this was recorded."""
        return question in self._answers

    def _next(self, question: str) -> Any:
        queue = self._answers.get(question)
        if not queue:
            raise LookError(f"not in the recording: {question}", Absence.NOT_LOOKED)
        entry = queue.popleft() if len(queue) > 1 else queue[0]
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
        return _as(list[str], self._next(f"folder {path}"))

    def read_link(self, path: str) -> str:
        return _as(str, self._next(f"link {path}"))

    def run(self, command: Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S) -> Finished:
        return _as(Finished, self._next(f"command {' '.join(command)}"))

    def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = HTTP_TIMEOUT_S,
    ) -> Answer:
        status, text, content_type = _as(tuple[int, str, str], self._next(f"http {method} {url}"))
        return Answer(status, text.encode(), content_type)

    def stream(
        self,
        url: str,
        body: Any,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = STREAM_TIMEOUT_S,
        silence_s: float = SILENCE_S,
    ) -> Iterator[Line]:
        lines = _as(list[tuple[float, str]], self._next(f"stream {url}"))
        return (Line(seconds, text) for seconds, text in lines)

    def ask(self, name: str, question: Callable[[], Any]) -> Any:
        return self._next(f"ask {name}")

    def now(self) -> str:
        return _as(str, self._next("now"))

    def clock(self) -> float:
        return _as(float, self._next("clock"))

    def sleep(self, seconds: float) -> None:
        """No need to wait for what has already happened."""

    def live(self) -> Live:
        raise LookError("a recording is not the machine itself", Absence.NOT_LOOKED)


class Recorder:
    """A door that writes down every answer, masked, as it passes."""

    def __init__(self, system: System, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._system = system
        self._file = (folder / INDEX).open("wb")

    def close(self) -> None:
        """End the recording."""
        self._file.close()

    def _write(self, entry: Entry) -> None:
        self._file.write(msgspec.json.encode(entry) + b"\n")

    def _keep(self, question: str, get: Callable[[], T], form: Callable[[T], Any] = lambda x: x) -> T:
        try:
            answer = get()
        except LookError as error:
            self._write(_failed(masked_text(question), error))
            raise
        self._write(Entry(masked_text(question), form(answer)))
        return answer

    def read_bytes(self, path: str, limit: int = FILE_LIMIT_BYTES) -> bytes:
        form = next((form for end, form in _FORMS.items() if path.endswith(end)), _text)
        return self._keep(f"file {path}", lambda: self._system.read_bytes(path, limit), form)

    def read_head(self, path: str, limit: int) -> bytes:
        return self._keep(f"head {path}", lambda: self._system.read_head(path, limit), _text)

    def read_tail(self, path: str, limit: int) -> bytes:
        return self._keep(f"tail {path}", lambda: self._system.read_tail(path, limit), _text)

    def list_dir(self, path: str) -> list[str]:
        return self._keep(f"folder {path}", lambda: self._system.list_dir(path))

    def read_link(self, path: str) -> str:
        return self._keep(f"link {path}", lambda: self._system.read_link(path), masked_text)

    def run(self, command: Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S) -> Finished:
        def form(done: Finished) -> Any:
            return {"status": done.status, "stdout": masked_text(done.stdout), "stderr": masked_text(done.stderr)}

        return self._keep(f"command {' '.join(command)}", lambda: self._system.run(command, timeout_s), form)

    def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = HTTP_TIMEOUT_S,
    ) -> Answer:
        def form(answer: Answer) -> Any:
            text = answer.body.decode("utf-8", "replace")
            shown = without_prompts(text) if url.endswith("/slots") else text
            return [answer.status, masked_text(shown), answer.content_type]

        def get() -> Answer:
            return self._system.request(method, url, body, headers, timeout_s)

        return self._keep(f"http {method} {url}", get, form)

    def stream(
        self,
        url: str,
        body: Any,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = STREAM_TIMEOUT_S,
        silence_s: float = SILENCE_S,
    ) -> Iterator[Line]:
        lines = []
        try:
            for line in self._system.stream(url, body, headers, timeout_s, silence_s):
                lines.append((line.seconds, masked_text(line.text)))
                yield line
        except LookError as error:
            self._write(_failed(f"stream {url}", error))
            raise
        self._write(Entry(f"stream {url}", lines))

    def ask(self, name: str, question: Callable[[], Any]) -> Any:
        form = _hidden if name.startswith(UNRECORDED) else _masked_json
        return self._keep(f"ask {name}", lambda: self._system.ask(name, question), form)

    def now(self) -> str:
        return self._keep("now", self._system.now)

    def clock(self) -> float:
        return self._keep("clock", self._system.clock)

    def sleep(self, seconds: float) -> None:
        self._system.sleep(seconds)

    def live(self) -> Live:
        return self._system.live()


def _failed(question: str, error: LookError) -> Entry:
    kind = error.kind if isinstance(error, ExchangeError) else None
    return Entry(question, error=masked_text(error.why), absence=error.absence, kind=kind)


def is_recording(folder: Path) -> bool:
    """Whether `unslow collect --record` wrote this folder."""
    return (folder / INDEX).is_file()


def _entries(path: Path) -> Iterator[Entry]:
    if path.stat().st_size > LARGEST_RECORDING_BYTES:
        raise UserError(f"{path} is larger than {LARGEST_RECORDING_BYTES >> 20} MiB", "record again with less log")
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield msgspec.json.decode(line, type=Entry)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                raise UserError(f"{path}, line {number}: {error}", "was the recording cut short?") from error


def _as(kind: type[T], value: Any) -> T:
    """The value as `kind`; a recording edited by hand can hold anything."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise LookError(f"the recording does not fit: {error}") from error


def _bytes(value: Any) -> bytes:
    return _as(str, value).encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return masked_text(data.decode("utf-8", "replace"))


def _words(data: bytes) -> str:
    return "\0".join(masked_command(data.decode("utf-8", "replace").split("\0")))


def _variables(data: bytes) -> str:
    words = (w.partition("=") for w in data.decode("utf-8", "replace").split("\0") if w.startswith(KEPT_VARIABLES))
    return "\0".join(f"{k}={v}" for k, v in masked_environment({k: v for k, _, v in words}).items())


def _listeners(data: bytes) -> str:
    """The table of sockets without the connections: with whom this machine talks is nobody's business."""
    head, *rows = data.decode("utf-8", "replace").splitlines()[:_MOST_SOCKETS] or [""]
    return "\n".join([head, *(row for row in rows if row.split()[3:4] == ["0A"])]) + "\n"


_FORMS: dict[str, Callable[[bytes], str]] = {
    "/environ": _variables,
    "/cmdline": _words,
    "/proc/net/tcp": _listeners,
    "/proc/net/tcp6": _listeners,
}
"""What is kept of files that hold more than a recording should, by the end of their path."""


def without_prompts(slots: str) -> str:
    """The answer of /slots without what people asked and what they were told."""
    try:
        answer = msgspec.json.decode(slots)
    except (msgspec.MsgspecError, RecursionError):
        return slots if len(slots) < _SHORT else ""
    for slot in answer if isinstance(answer, list) else []:
        for name in ("prompt", "generated") if isinstance(slot, dict) else ():
            slot.pop(name, None)
    return msgspec.json.encode(answer).decode()


def _hidden(_value: Any) -> str:
    return "masked"


def _masked_json(value: Any) -> Any:
    match value:
        case str():
            return masked_text(value)
        case list() | tuple():
            return [_masked_json(v) for v in value]
        case dict():
            return {k: _masked_json(v) for k, v in value.items()}
        case _:
            return value
