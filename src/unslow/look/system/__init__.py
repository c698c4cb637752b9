"""The one door to the world: what may be asked of it, live or recorded, and the one way in which asking fails."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, TypeVar

import msgspec

from unslow.facts.values import Absence, Fact, Unknown

T = TypeVar("T")
D = TypeVar("D")
P = ParamSpec("P")
Headers = Mapping[str, str] | None

FILE_LIMIT_BYTES = 1024**2
FOLLOW_LIMIT_BYTES = 4096
COMMAND_LIMIT_BYTES = 4 * 1024**2
COMMAND_TIMEOUT_S = 5.0
HTTP_LIMIT_BYTES = 4 * 1024**2
HTTP_TIMEOUT_S = 3.0
STREAM_TIMEOUT_S = 120.0
SILENCE_S = 45.0
"""A server that says nothing for so long is not going to: slow ones take seconds for a token, not minutes."""
LATE, STOPPED = "the time for measuring was over", "it was stopped"  # why a closing system answers no more
if sys.platform == "win32":
    READ_FLAGS = os.O_RDONLY | os.O_BINARY
else:
    READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
"""To open a file that may turn out to be a pipe, which would wait for its writer, or a terminal, for its user."""


class LookError(Exception):
    """Something could not be learned; `absence` tells "not there" from "failed"."""

    def __init__(self, why: str, absence: Absence = Absence.FAILED, how_to_get: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.absence = absence
        self.how_to_get = how_to_get


ExchangeFailure = Literal["refused", "silent", "broke_off", "error"]


class ExchangeError(LookError):
    """A server that did not answer, or not completely: refused, silent, hung up, or anything else."""

    def __init__(
        self, kind: ExchangeFailure, why: str, absence: Absence = Absence.FAILED, how_to_get: str = ""
    ) -> None:
        super().__init__(why, absence, how_to_get)
        self.kind: ExchangeFailure = kind


def unknown(error: LookError, how_to_get: str = "") -> Unknown:
    """The failed look as a fact."""
    return Unknown(error.why, how_to_get or error.how_to_get, error.absence)


def was_closed(error: LookError) -> bool:
    """Whether the exchange ended because time was up or the user stopped it, not because of the server."""
    return error.why in (LATE, STOPPED)


def try_look(otherwise: D, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | D:
    """What asking gives; `otherwise` where it fails."""
    try:
        return ask(*args, **kwargs)
    except LookError:
        return otherwise


def look_if_there(otherwise: D, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | D:
    """What asking gives; `otherwise` where there is no such thing. Any other failure is one."""
    try:
        return ask(*args, **kwargs)
    except LookError as error:
        if error.absence is Absence.NOT_FOUND:
            return otherwise
        raise


def try_fact(ask: Callable[P, Fact[T]], *args: P.args, **kwargs: P.kwargs) -> Fact[T]:
    """The fact that asking gives; an Unknown with the reason where it fails."""
    try:
        return ask(*args, **kwargs)
    except LookError as error:
        return unknown(error)


def convert_answer(value: Any, kind: type[T], what: str = "the recording is not valid") -> T:
    """An answer as `kind`; LookError where it is something else, as a recording edited by hand can hold anything."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise LookError(f"{what}: {error}") from error


class FinishedCommand(msgspec.Struct, frozen=True):
    """A command that ended by itself."""

    status: int
    stdout: str
    stderr: str


class Answer(msgspec.Struct, frozen=True):
    """An HTTP answer, whatever its status."""

    status: int
    body: bytes
    content_type: str = ""

    def json(self) -> Any:
        """The body as JSON; LookError where it is anything else."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise LookError(f"answered something that is not JSON: {self.body[:60]!r}") from error


class Line(NamedTuple):
    """A line of a streamed answer and when it came, in seconds since the request was sent."""

    seconds: float
    text: str


class System(Protocol):
    """Everything below raises LookError and nothing else; every call has a limit of time and size."""

    def read_bytes(self, path: str, limit: int = FILE_LIMIT_BYTES) -> bytes:
        """The whole file; more than `limit` is an error."""

    def read_head(self, path: str, limit: int) -> bytes:
        """The first `limit` bytes of a regular file of any size; pipes and devices are an error."""

    def read_tail(self, path: str, limit: int) -> bytes:
        """The last `limit` bytes of a file of any size."""

    def list_dir(self, path: str) -> list[str]:
        """Names in a folder, sorted."""

    def read_link(self, path: str) -> str:
        """Where a link leads."""

    def run(self, command: Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S) -> FinishedCommand:
        """Run a read-only command to its end."""

    def request(
        self, method: str, url: str, body: Any = None, headers: Headers = None, timeout_s: float = HTTP_TIMEOUT_S
    ) -> Answer:
        """One HTTP exchange; redirects are not followed."""

    def stream(
        self,
        url: str,
        body: Any,
        headers: Headers = None,
        timeout_s: float = STREAM_TIMEOUT_S,
        silence_s: float = SILENCE_S,
    ) -> Iterator[Line]:
        """POST, and the answer line by line as it arrives; over where it is silent, or takes too long in all."""

    def ask(self, name: str, question: Callable[[], Any]) -> Any:
        """The JSON-like result of a library call or a measurement, recorded under its name."""

    def now(self) -> str:
        """The wall clock, as ISO 8601 in UTC."""

    def clock(self) -> float:
        """Seconds that only grow."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def live(self) -> "Live":
        """The machine itself, unrecorded, for whoever looks many times a second; LookError in a recording."""


class OpenFile(Protocol):
    """A file that stays open: each call is what it holds now; LookError once it can't be read any more."""

    def __call__(self) -> bytes: ...

    def close(self) -> None:
        """Let go of the file."""


class Live(System, Protocol):
    """What a recording can't give: its answers are written down nowhere, only what is made of them is."""

    def follow(self, path: str, limit: int = FOLLOW_LIMIT_BYTES) -> OpenFile:
        """The file for reading its first `limit` bytes again and again; LookError where it can't be opened."""

    def cpu_s(self) -> float:
        """Processor time that the calling thread has used so far."""

    def library(self, name: str) -> Any:
        """A Python module that speaks with a driver; LookError where it is not installed."""


def read_text(system: System, path: str, limit: int = FILE_LIMIT_BYTES) -> str:
    """A file as text; bytes that are not UTF-8 are replaced."""
    return system.read_bytes(path, limit).decode("utf-8", "replace")
