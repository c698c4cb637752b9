"""The door that writes a recording."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import msgspec

from unslow.facts.masking import masked_text
from unslow.facts.masking_rules import RULES_WITHOUT_PROMPTS
from unslow.look.keys import hushed
from unslow.look.system.door import (
    COMMAND_TIMEOUT_S,
    FILE_LIMIT_BYTES,
    HTTP_TIMEOUT_S,
    SILENCE_S,
    STREAM_TIMEOUT_S,
    Answer,
    ExchangeError,
    Finished,
    Line,
    Live,
    LookError,
    System,
)
from unslow.look.system.recorded.kept import form_of, hidden, masked_bytes, masked_json, masked_tail, without_prompts
from unslow.look.system.recorded.recording import CLOCK, INDEX, Entry, packed

T = TypeVar("T")

UNRECORDED = "secret "
"""How the name of a question starts whose answer is used and written down nowhere, such as a file of keys."""


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
        text = self._hushed(msgspec.json.encode(entry).decode()).encode()
        with self._lock:
            if self._file.closed:
                return
            if self._last.get(entry.question) == hash(text):
                text = msgspec.json.encode(Entry(entry.question, again=True))
            else:
                self._last[entry.question] = hash(text)
            self._file.write(text + b"\n")

    def _hushed(self, text: str) -> str:
        return hushed(text, *self._secrets) if self._secrets else text

    def _keep(self, question: str, get: Callable[[], T], form: Callable[[T], Any] = lambda x: x) -> T:
        try:
            answer = get()
        except LookError as error:
            self._write(_failed(masked_text(question), error))
            raise
        self._write(Entry(masked_text(question), form(answer)))
        return answer

    def read_bytes(self, path: str, limit: int = FILE_LIMIT_BYTES) -> bytes:
        return self._keep(f"file {path}", lambda: self._system.read_bytes(path, limit), form_of(path))

    def read_head(self, path: str, limit: int) -> bytes:
        return self._keep(f"head {path}", lambda: self._system.read_head(path, limit), masked_bytes)

    def read_tail(self, path: str, limit: int) -> bytes:
        return self._keep(
            f"tail {path}", lambda: self._system.read_tail(path, limit), lambda data: masked_tail(data, limit)
        )

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
        lines, entry = [], Entry(f"stream {url}")
        try:
            for seconds, text in self._system.stream(url, body, headers, timeout_s, silence_s):
                line = Line(round(seconds, 6), text)  # a microsecond is enough, and as much as is written down
                kept = masked_text(line.text, RULES_WITHOUT_PROMPTS)  # an answer to what unslow itself made up
                lines.append((line.seconds, self._hushed(kept)))
                yield line
        except LookError as error:
            entry = _failed(f"stream {url}", error)
            raise
        finally:  # also where nobody wanted to hear the rest
            self._write(msgspec.structs.replace(entry, answer=packed(lines)))

    def ask(self, name: str, question: Callable[[], Any]) -> Any:
        form = hidden if name.startswith(UNRECORDED) else masked_json
        return self._keep(f"ask {name}", lambda: self._system.ask(name, question), form)

    def now(self) -> str:
        return self._keep("now", self._system.now)

    def clock(self) -> float:
        return self._keep(CLOCK, self._system.clock)

    def sleep(self, seconds: float) -> None:
        self._system.sleep(seconds)

    def live(self) -> Live:
        return self._system.live()


def _failed(question: str, error: LookError) -> Entry:
    kind = error.kind if isinstance(error, ExchangeError) else None
    return Entry(question, error=masked_text(error.why), absence=error.absence, kind=kind)
