"""Where the bytes of a model file come from: a file, or a pipe that can only be read forward."""

import os
import select
import stat
import sys
from typing import BinaryIO, Protocol

from unslow.look.system import LookError
from unslow.look.system.door import READ_FLAGS

SILENCE_S = 60.0
"""A pipe that says nothing for so long is not going to: a download that feeds it retries sooner."""
_PIPE_BYTES = 65536


class Source(Protocol):
    """Bytes that are read in the order in which they lie."""

    @property
    def size(self) -> int | None:
        """Bytes in all; None where only the end will tell."""
        ...

    def read(self, at: int, least: int, most: int) -> bytes:
        """From `least` to `most` bytes from `at` on, never before what was read last; fewer only at the end."""
        ...


class FileSource:
    """An open file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self.size = file, size

    def read(self, at: int, least: int, most: int) -> bytes:  # noqa: ARG002 (a file has all of it at once)
        """The bytes at that place."""
        self._file.seek(at)
        return self._file.read(most)


class PipeSource:
    """An open pipe: what is stepped over has to be read, and waiting for it has an end."""

    size = None

    def __init__(self, descriptor: int, silence_s: float = SILENCE_S) -> None:
        self._descriptor, self._silence_s = descriptor, silence_s
        self._place = 0

    def read(self, at: int, least: int, most: int) -> bytes:
        """The bytes at that place; no more are waited for than must be."""
        while self._place < at:
            if not self._next(at - self._place):
                return b""
        data = bytearray()
        while len(data) < least and (chunk := self._next(most - len(data))):
            data += chunk
        return bytes(data)

    def _next(self, most: int) -> bytes:
        # Windows can wait for sockets alone: a pipe is read there however long it says nothing
        if sys.platform != "win32" and not select.select([self._descriptor], [], [], self._silence_s)[0]:
            raise LookError(f"says nothing for {self._silence_s:g} s")
        chunk = os.read(self._descriptor, min(most, _PIPE_BYTES))
        self._place += len(chunk)
        return chunk


def opened(path: str) -> BinaryIO:
    """A regular file, open; OSError where there is none, LookError where it is something else."""
    descriptor = os.open(path, READ_FLAGS)
    if not is_file(descriptor):
        os.close(descriptor)
        raise LookError("is not a file")
    return open(descriptor, "rb", buffering=0)


def is_file(descriptor: int) -> bool:
    """Whether it is a regular file, whose size is known and which can be read at any place."""
    return stat.S_ISREG(os.fstat(descriptor).st_mode)
