"""The same door over a recording, and the recorder that makes one.

A recording is a folder with `recording.jsonl`: one answer of the world a line, in the order in which it was given. A
question asked twice is answered twice; after the last answer that one stays. The clock answers with the first reading
that came after the last answer, so that a version which looks at it more often than the one that recorded still sees
each thing take the time it took. An answer that is as it was before is written as that, and a stream is packed.
"""

import base64
import binascii
import zlib
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import msgspec

from unslow.facts.errors import UserError
from unslow.facts.masking import RULES_WITHOUT_PROMPTS, masked_command, masked_environment, masked_text, without_keys
from unslow.facts.values import Absence
from unslow.look.system import (
    Answer,
    ExchangeError,
    ExchangeFailure,
    FinishedCommand,
    Line,
    Live,
    LookError,
    System,
    convert_answer,
)

KEPT_VARIABLES = ("LLAMA_", "GGML_", "CUDA_", "HIP_", "ROCR_", "HSA_", "OLLAMA_", "OMP_", "GOMP_", "VLLM_")
_MOST_SOCKETS = 100_000
_SHORT = 200  # an error message; anything longer that is not JSON might hold a prompt

T = TypeVar("T")

INDEX = "recording.jsonl"
CLOCK = "clock"  # The question of what time it is; all others have a word for their kind before them
LARGEST_RECORDING_BYTES = 256 * 1024**2
LARGEST_STREAM_BYTES = 64 * 1024**2

UNRECORDED = "secret "
"""How the name of a question starts whose answer is used and written down nowhere, such as a file of keys."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer of the world, or why there was none."""

    question: str
    answer: Any = None
    error: str = ""
    absence: Absence = Absence.FAILED
    kind: ExchangeFailure | None = None  # How an exchange with a server failed
    again: bool = False  # Whether the answer is the one before

    def failure(self) -> LookError:
        if self.kind:
            return ExchangeError(self.kind, self.error, self.absence)
        return LookError(self.error, self.absence)


def is_recording(folder: Path) -> bool:
    """Whether `unslow collect --record` wrote this folder."""
    return (folder / INDEX).is_file()


class RecordedSystem:
    """Answers from a recording; what was never asked was never seen. Any thread may ask."""

    def __init__(self, folder: Path) -> None:
        self._answers: dict[str, deque[tuple[int, Entry]]] = defaultdict(deque)  # with their lines
        for line, entry in enumerate(read_entries(folder / INDEX)):
            queue = self._answers[entry.question]
            queue.append((line, queue[-1][1] if entry.again and queue else entry))
        self._clock = list(self._answers.pop(CLOCK, ()))
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

    def _bytes(self, question: str) -> bytes:
        return convert_answer(self._next(question), str).encode("utf-8", "surrogateescape")

    def read_bytes(self, path: str, *_given: Any, **_named: Any) -> bytes:
        return self._bytes(f"file {path}")

    def read_head(self, path: str, limit: int) -> bytes:
        return self._bytes(f"head {path}")

    def read_tail(self, path: str, limit: int) -> bytes:
        return self._bytes(f"tail {path}")

    def list_dir(self, path: str) -> list[str]:
        return convert_answer(self._next(f"folder {path}"), list[str])

    def read_link(self, path: str) -> str:
        return convert_answer(self._next(f"link {path}"), str)

    def run(self, command: Sequence[str], *_given: Any, **_named: Any) -> FinishedCommand:
        return convert_answer(self._next(f"command {' '.join(command)}"), FinishedCommand)

    def request(self, method: str, url: str, *_given: Any, **_named: Any) -> Answer:
        status, text, content_type = convert_answer(self._next(f"http {method} {url}"), tuple[int, str, str])
        return Answer(status, text.encode(), content_type)

    def stream(self, url: str, *_given: Any, **_named: Any) -> Iterator[Line]:
        entry = self._entry(f"stream {url}")
        for seconds, text in unpacked_stream(entry.answer):
            yield Line(seconds, text)
        if entry.error:
            raise entry.failure()

    def ask(self, name: str, question: Callable[[], Any]) -> Any:
        return self._next(f"ask {name}")

    def now(self) -> str:
        return convert_answer(self._next("now"), str)

    def clock(self) -> float:
        with self._lock:
            if not self._clock:
                raise LookError("not in the recording: the clock", Absence.NOT_LOOKED)
            place = min(bisect_right(self._clock, self._at, key=lambda c: c[0]), len(self._clock) - 1)
            self._at = max(self._at, self._clock[place][0])
            self._seconds = max(self._seconds, convert_answer(self._clock[place][1].answer, float))
            return self._seconds

    def sleep(self, seconds: float) -> None:
        """No need to wait for what has already happened."""

    def live(self) -> Live:
        raise LookError("a recording is not the machine itself", Absence.NOT_LOOKED)


def read_entries(path: Path) -> Iterator[Entry]:
    """Every line of the file; UserError where one is none."""
    if path.stat().st_size > LARGEST_RECORDING_BYTES:
        raise UserError(f"{path} is larger than {LARGEST_RECORDING_BYTES >> 20} MiB", "record again with less log")
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield msgspec.json.decode(line, type=Entry)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                raise UserError(f"{path}, line {number}: {error}", "was the recording cut short?") from error


def unpacked_stream(answer: Any) -> list[tuple[float, str]]:
    """The lines again, also those of a recording that has them as they are."""
    if not isinstance(answer, str):
        return convert_answer(answer or [], list[tuple[float, str]])
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(base64.b64decode(answer, validate=True), LARGEST_STREAM_BYTES)
        return msgspec.json.decode(text, type=list[tuple[float, str]])
    except (binascii.Error, zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LookError(f"the recording is not valid: {error}") from error


class Recorder:
    """A door that writes down every answer, masked, as it passes."""

    def __init__(self, system: System, folder: Path, secrets: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._system, self._secrets = system, tuple(secrets)
        self._file = (folder / INDEX).open("wb")
        self._lock = Lock()
        self._last: dict[str, int] = {}

    def close(self) -> None:
        """End the recording; whoever still asks is answered, and nothing of it written down."""
        with self._lock:
            self._file.close()

    def _write(self, entry: Entry) -> None:
        text = self._without_secrets(msgspec.json.encode(entry).decode()).encode()
        with self._lock:
            if self._file.closed:
                return
            if self._last.get(entry.question) == hash(text):
                text = msgspec.json.encode(Entry(entry.question, again=True))
            else:
                self._last[entry.question] = hash(text)
            self._file.write(text + b"\n")

    def _without_secrets(self, text: str) -> str:
        return without_keys(text, *self._secrets) if self._secrets else text

    def _keep(self, question: str, get: Callable[[], T], form: Callable[[T], Any] = lambda x: x) -> T:
        try:
            answer = get()
        except LookError as error:
            self._write(_failed_entry(masked_text(question), error))
            raise
        self._write(Entry(masked_text(question), form(answer)))
        return answer

    def read_bytes(self, path: str, *given: Any, **named: Any) -> bytes:
        form = next((form for end, form in _FORMS.items() if path.endswith(end)), masked_bytes)
        return self._keep(f"file {path}", lambda: self._system.read_bytes(path, *given, **named), form)

    def read_head(self, path: str, limit: int) -> bytes:
        return self._keep(f"head {path}", lambda: self._system.read_head(path, limit), masked_bytes)

    def read_tail(self, path: str, limit: int) -> bytes:
        # The first line of the end was cut, and may be the rest of a prompt
        def form(data: bytes) -> str:
            return masked_bytes(data if len(data) < limit else data.partition(b"\n")[2])

        return self._keep(f"tail {path}", lambda: self._system.read_tail(path, limit), form)

    def list_dir(self, path: str) -> list[str]:
        return self._keep(f"folder {path}", lambda: self._system.list_dir(path))

    def read_link(self, path: str) -> str:
        return self._keep(f"link {path}", lambda: self._system.read_link(path), masked_text)

    def run(self, command: Sequence[str], *given: Any, **named: Any) -> FinishedCommand:
        def form(done: FinishedCommand) -> Any:
            return {"status": done.status, "stdout": masked_text(done.stdout), "stderr": masked_text(done.stderr)}

        return self._keep(f"command {' '.join(command)}", lambda: self._system.run(command, *given, **named), form)

    def request(self, method: str, url: str, *given: Any, **named: Any) -> Answer:
        def form(answer: Answer) -> Any:
            text = answer.body.decode("utf-8", "replace")
            shown = without_prompts(text) if url.endswith("/slots") else text
            return [answer.status, masked_text(shown), answer.content_type]

        return self._keep(f"http {method} {url}", lambda: self._system.request(method, url, *given, **named), form)

    def stream(self, url: str, *given: Any, **named: Any) -> Iterator[Line]:
        lines, entry = [], Entry(f"stream {url}")
        try:
            for seconds, text in self._system.stream(url, *given, **named):
                line = Line(round(seconds, 6), text)  # a microsecond is enough, and as much as is written down
                kept = masked_text(line.text, RULES_WITHOUT_PROMPTS)  # an answer to what unslow itself made up
                lines.append((line.seconds, self._without_secrets(kept)))
                yield line
        except LookError as error:
            entry = _failed_entry(f"stream {url}", error)
            raise
        finally:  # also where the rest was not read; hundreds of lines that differ in a word each
            packed = base64.b64encode(zlib.compress(msgspec.json.encode(lines), 9)).decode() if lines else []
            self._write(msgspec.structs.replace(entry, answer=packed))

    def ask(self, name: str, question: Callable[[], Any]) -> Any:
        form = (lambda _: "masked") if name.startswith(UNRECORDED) else masked_json  # else nothing of it
        return self._keep(f"ask {name}", lambda: self._system.ask(name, question), form)

    def now(self) -> str:
        return self._keep("now", self._system.now)

    def clock(self) -> float:
        return self._keep(CLOCK, self._system.clock)

    def sleep(self, seconds: float) -> None:
        self._system.sleep(seconds)

    def live(self) -> Live:
        return self._system.live()


def _failed_entry(question: str, error: LookError) -> Entry:
    kind = error.kind if isinstance(error, ExchangeError) else None
    return Entry(question, error=masked_text(error.why), absence=error.absence, kind=kind)


def masked_bytes(data: bytes) -> str:
    """What a file holds, without private data."""
    return masked_text(data.decode("utf-8", "replace"))


def masked_json(value: Any) -> Any:
    """An answer with every text in it masked."""
    match value:
        case str():
            return masked_text(value)
        case list() | tuple():
            return [masked_json(v) for v in value]
        case dict():
            return {k: masked_json(v) for k, v in value.items()}
        case _:
            return value


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


def _words(data: bytes) -> str:
    return "\0".join(masked_command(data.decode("utf-8", "replace").split("\0")))


def _variables(data: bytes) -> str:
    words = (w.partition("=") for w in data.decode("utf-8", "replace").split("\0") if w.startswith(KEPT_VARIABLES))
    return "\0".join(f"{k}={v}" for k, v in masked_environment({k: v for k, _, v in words}).items())


def _listeners(data: bytes) -> str:
    """The table of sockets without the connections: the peers of this machine are private."""
    head, *rows = data.decode("utf-8", "replace").splitlines()[:_MOST_SOCKETS] or [""]
    return "\n".join([head, *(row for row in rows if row.split()[3:4] == ["0A"])]) + "\n"


_FORMS: dict[str, Callable[[bytes], str]] = {
    "/environ": _variables,
    "/cmdline": _words,
    "/proc/net/tcp": _listeners,
    "/proc/net/tcp6": _listeners,
}
"""What is kept of files that hold more than a recording should, by the end of their path."""
