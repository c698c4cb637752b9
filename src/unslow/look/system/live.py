"""The real machine; and the same through a door that closes when the time is up or the user has seen enough."""

import importlib
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any, Self

from unslow.facts.values import Absence
from unslow.look.system import (
    COMMAND_LIMIT_BYTES,
    COMMAND_TIMEOUT_S,
    FILE_LIMIT_BYTES,
    FOLLOW_LIMIT_BYTES,
    HTTP_TIMEOUT_S,
    LATE,
    READ_FLAGS,
    SILENCE_S,
    STOPPED,
    STREAM_TIMEOUT_S,
    Answer,
    FinishedCommand,
    Headers,
    Line,
    LookError,
    http,
)

_LEAST_S = 0.05


class LiveSystem:
    """Reads this machine; talks only to loopback and to the hosts that the user named."""

    def __init__(self, named_hosts: Sequence[str] = ()) -> None:
        self._named_hosts = frozenset(named_hosts)

    def read_bytes(self, path: str, limit: int = FILE_LIMIT_BYTES) -> bytes:
        with _system_errors(path), open(path, "rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise LookError(f"{path}: more than {limit} bytes")
        return data

    def read_head(self, path: str, limit: int) -> bytes:
        with _system_errors(path), open(os.open(path, READ_FLAGS), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LookError(f"{path}: not a regular file", Absence.NOT_SUPPORTED)
            return file.read(limit)

    def read_tail(self, path: str, limit: int) -> bytes:
        with _system_errors(path), open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
            return file.read(limit)

    def list_dir(self, path: str) -> list[str]:
        with _system_errors(path):
            return sorted(os.listdir(path))

    def read_link(self, path: str) -> str:
        with _system_errors(path):
            target = str(Path(path).readlink()) if Path(path).is_symlink() else ""
            is_open_file = ":[" in target and not target.startswith("/")  # "socket:[39229]": no path to follow
            return target if is_open_file else os.path.realpath(path, strict=True)

    def run(self, command: Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S) -> FinishedCommand:
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=timeout_s, check=False, env=environment, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired as error:
            raise LookError(f"{command[0]}: no answer in {timeout_s:g} s") from error
        except OSError as error:
            raise _look_error(command[0], error) from error
        out, err = (s[:COMMAND_LIMIT_BYTES].decode("utf-8", "replace") for s in (done.stdout, done.stderr))
        return FinishedCommand(done.returncode, out, err)

    def request(
        self, method: str, url: str, body: Any = None, headers: Headers = None, timeout_s: float = HTTP_TIMEOUT_S
    ) -> Answer:
        allowed_s = self._allowed_s(timeout_s)
        http.check_host(url, self._named_hosts)
        return http.request(method, url, body, headers or {}, allowed_s, self._note_socket)

    def stream(
        self,
        url: str,
        body: Any,
        headers: Headers = None,
        timeout_s: float = STREAM_TIMEOUT_S,
        silence_s: float = SILENCE_S,
    ) -> Iterator[Line]:
        allowed_s = self._allowed_s(timeout_s), self._allowed_s(silence_s)
        http.check_host(url, self._named_hosts)
        return self._listen(http.stream(url, body, headers or {}, *allowed_s, opened=self._note_socket))

    def _allowed_s(self, seconds: float) -> float:
        return seconds

    def _note_socket(self, connection: socket.socket) -> None:
        """An exchange begins on this socket; LookError where it may not any more."""

    def _listen(self, lines: Iterator[Line]) -> Iterator[Line]:
        return lines

    def ask(self, name: str, question: Callable[[], Any]) -> Any:
        return question()

    def now(self) -> str:
        return datetime.now(UTC).isoformat(timespec="seconds")

    def clock(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def live(self) -> Self:
        return self

    def follow(self, path: str, limit: int = FOLLOW_LIMIT_BYTES) -> "FollowedFile":
        return FollowedFile(path, limit)

    def cpu_s(self) -> float:
        return time.thread_time()

    def library(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise LookError(f"the Python module {name} is not installed", Absence.NOT_FOUND) from error


class FollowedFile:
    """One system call for each look, where there is pread: the file stays open, and is read from its start."""

    def __init__(self, path: str, limit: int) -> None:
        self._path, self._limit = path, limit
        with _system_errors(path):
            self._descriptor = os.open(path, READ_FLAGS)

    def __call__(self) -> bytes:
        try:
            if sys.platform == "win32":
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                return os.read(self._descriptor, self._limit)
            return os.pread(self._descriptor, self._limit, 0)
        except OSError as error:
            raise _look_error(self._path, error) from error

    def close(self) -> None:
        """Let go of the file; reading it afterwards is an error like any other."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def _system_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _look_error(what, error) from error


def _look_error(what: str, error: OSError) -> LookError:
    if isinstance(error, FileNotFoundError | NotADirectoryError | ProcessLookupError):
        return LookError(f"{what}: not found", Absence.NOT_FOUND)
    if isinstance(error, PermissionError):
        return LookError(f"{what}: permission denied", Absence.FAILED, "run as the user who owns it")
    return LookError(f"{what}: {error.strerror or error}")


class ClosingSystem(LiveSystem):
    """The machine through a door that closes: when the time is up, or when the user has seen enough.

    What is being asked then ends with a LookError like any other, so that whoever asks keeps what it has. A second wish
    to stop is a KeyboardInterrupt wherever it comes. Any thread may ask; only the one that it belongs to is stopped in
    the middle of what it does.
    """

    def __init__(self, named_hosts: Sequence[str] = ()) -> None:
        super().__init__(named_hosts)
        self.concluding = False
        """Whether all is asked and only the answer is missing: a wish to stop then changes nothing."""
        self._closes_at = inf
        self._stops = 0
        self._listening, self._waiting = 0, False
        self._owner = threading.current_thread()
        self._sockets: frozenset[socket.socket] = frozenset()
        self._lock = threading.Lock()
        self._was_cut = False

    def close_in(self, seconds: float) -> None:
        """Answer nothing after this many seconds."""
        self._closes_at = time.monotonic() + seconds

    @property
    def is_stopped(self) -> bool:
        return self._stops > 0

    @property
    def is_stopped_once(self) -> bool:
        """Whether so, and what is known until now is still wanted."""
        return self._stops == 1

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self._closes_at

    def stop(self) -> None:
        """Close now; called from a signal handler, so it comes in the middle of anything."""
        self._stops += 1
        listens = self._listening > 0 and not self._waiting  # and looks at the door with the next line
        if self._stops > 1 or not (self.concluding or listens):
            raise KeyboardInterrupt

    def stop_from_afar(self) -> None:
        """Close now, asked by another thread: no thread keeps waiting for a server in a long prefill."""
        self._stops = max(1, self._stops)
        if self.concluding:
            return
        with self._lock:
            for one in self._sockets:
                self._was_cut = True
                http.shut(one)

    def request(self, *given: Any, **named: Any) -> Answer:
        try:
            return super().request(*given, **named)
        except LookError:
            self._check_cut()
            raise

    def _note_socket(self, connection: socket.socket) -> None:
        with self._lock:
            self._sockets = frozenset({connection, *(one for one in self._sockets if one.fileno() >= 0)})
        self._check()  # who was asked to stop just before did not know this socket

    def _allowed_s(self, seconds: float) -> float:
        self._check()
        return min(seconds, self._left_s())

    def _listen(self, lines: Iterator[Line]) -> Iterator[Line]:
        if threading.current_thread() is not self._owner:
            yield from self._while_open(lines, lambda: next(lines, None))
            return
        self._listening += 1
        try:
            yield from self._while_open(lines, lambda: self._await_line(lines))
        finally:
            self._listening -= 1

    def _while_open(self, lines: Iterator[Line], next_line: Callable[[], Line | None]) -> Iterator[Line]:
        try:
            while (line := next_line()) is not None:
                self._check()
                yield line
            self._check_cut()
        except LookError:
            self._check()  # one that was cut off for the hour is late, not silent
            raise
        finally:
            # End the exchange now: a server answers until the connection closes, and an error may hold the lines
            if isinstance(lines, Generator):
                lines.close()

    def _await_line(self, lines: Iterator[Line]) -> Line | None:
        """The next line; being stopped while waiting for it closes the door."""
        try:
            self._waiting = True
            return next(lines, None)
        except KeyboardInterrupt:
            if self._stops > 1:
                raise
            raise LookError(STOPPED, Absence.NOT_LOOKED) from None
        finally:
            self._waiting = False

    def sleep(self, seconds: float) -> None:
        super().sleep(max(0.0, min(seconds, self._left_s())))

    def _left_s(self) -> float:
        return max(_LEAST_S, self._closes_at - time.monotonic())

    def _check_cut(self) -> None:
        """What was cut off from another thread is not an answer, and not the server's fault."""
        if self._was_cut:
            self._check()

    def _check(self) -> None:
        # what concludes is the owner's thread: what other threads still ask of a server is discarded
        if self.is_stopped and not (self.concluding and threading.current_thread() is self._owner):
            raise LookError(STOPPED, Absence.NOT_LOOKED)
        if self.is_late:
            raise LookError(LATE, Absence.NOT_LOOKED, "give it more time with --thorough")
