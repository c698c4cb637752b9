"""A file or pipe read forward through a window: whatever lengths it claims, memory and time stay bounded."""

import os
import re
import select
import struct
import sys
from functools import cache
from typing import Any, BinaryIO, Protocol

from unslow.look.system import LookError

SILENCE_S = 60.0  # A pipe that says nothing for so long is not going to: a download that feeds it retries sooner
_PIPE_BYTES = 65536
STRINGS_BLOCK = 32
_SHORT = 48  # bytes; longer ones are rare, and every length more takes the expression longer to compile
WINDOW_BYTES = 128 * 1024
MOST_HEADER_BYTES = 256 * 1024**2
MOST_KEPT_BYTES = 4 * 1024**2
MOST_STRINGS = 2_000_000  # in all arrays together; the largest vocabularies, with their merges, have under a million
_TOO_LONG = f"has a header of more than {MOST_HEADER_BYTES >> 20} MiB"


class Source(Protocol):
    """Bytes that are read in the order in which they lie."""

    @property
    def size(self) -> int | None:
        """Bytes in all; None where only the end will tell."""

    def read(self, at: int, least: int, most: int) -> bytes:
        """From `least` to `most` bytes from `at` on, never before what was read last; fewer only at the end."""


class Window:
    """A part of the file, moved forward as it is used up."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._data, self._start, self._at = b"", 0, 0
        self._bytes_left, self._keep_left, self._strings_left = MOST_HEADER_BYTES, MOST_KEPT_BYTES, MOST_STRINGS
        self._order, self._length = "<", struct.Struct("<Q")

    def set_format(self, order: str, length: str) -> None:
        """Byte order, and the type of lengths and counts."""
        self._order, self._length = order, struct.Struct(order + length)

    @property
    def place(self) -> int:
        return self._start + self._at

    @property
    def size(self) -> int | None:
        """Bytes of the file; None where only its end will tell."""
        return self._source.size

    def check_room(self, count: int) -> None:
        """LookError where the file can't have that many more header bytes."""
        size = self.size
        if size is None and count > MOST_HEADER_BYTES - self.place:
            raise LookError(_TOO_LONG)
        if size is not None and count > size - self.place:
            left = max(0, size - self.place)
            raise LookError(f"is truncated: its header needs {count} more bytes, and {left} are left")

    def skip(self, count: int) -> None:
        self.check_room(count)
        self._at += count

    def take(self, count: int) -> bytes:
        """The next bytes, fewer than a window has."""
        end = self._at + count
        if end > len(self._data):
            self.check_room(count)
            self._move(count)
            end = count
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _move(self, least: int) -> None:
        kept, place = self._data[self._at :], self.place
        wanted = least - len(kept)
        data = self._source.read(place + len(kept), wanted, WINDOW_BYTES - len(kept))
        if len(data) < wanted:
            raise LookError("is truncated: it ends within its header")
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise LookError(_TOO_LONG)
        self._data, self._start, self._at = kept + data, place, 0

    def numbers(self, code: str, count: int = 1) -> tuple[Any, ...]:
        """`count` numbers of one type, by its code in `struct`."""
        form = f"{self._order}{count}{code}"
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def integer(self, code: str) -> int:
        return int(self.numbers(code)[0])

    def length(self) -> int:
        return int(self._length.unpack(self.take(self._length.size))[0])

    def lengths(self, count: int) -> tuple[int, ...]:
        return self.numbers(self._length.format[1:], count)

    def check_kept(self, count: int) -> None:
        """LookError where that many bytes are more than are kept of all names and values together."""
        self._keep_left -= count
        if self._keep_left < 0:
            raise LookError(f"has more than {MOST_KEPT_BYTES >> 20} MiB of names, short texts and short arrays")

    def check_items(self, count: int, least_bytes: int, most: int, what: str) -> None:
        """LookError where that many items, each of `least_bytes` or more, don't fit the rest of the file."""
        if count > most:
            raise LookError(f"declares {count} {what}; at most {most} are read")
        self.check_room(count * least_bytes)

    def skip_strings(self, count: int) -> None:
        """Step over `count` strings, from window to window."""
        self.check_items(count, self._length.size, self._strings_left, "strings")
        self._strings_left -= count
        while count:
            done, at = stepped_over_strings(self._length, self._data, self._at, count)
            self.skip(at - self._at)
            count -= done
            if count and not done:  # the next length is not in the window yet
                self.check_room(self._length.size)
                self._move(self._length.size)


class FileSource:
    """An open file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self.size = file, size

    def read(self, at: int, least: int, most: int) -> bytes:  # noqa: ARG002 (a file has all of it at once)
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
            raise LookError(f"sent nothing for {self._silence_s:g} s")
        chunk = os.read(self._descriptor, min(most, _PIPE_BYTES))
        self._place += len(chunk)
        return chunk


def stepped_over_strings(length: struct.Struct, data: bytes, at: int, count: int) -> tuple[int, int]:
    """How many of the strings from `at` on have their length inside the data, and where the next one starts."""
    # A string is its length and its bytes, so each tells where the next one is, and all have to be visited. Short ones
    # are visited thirty-two at a time by a regular expression, which takes half the time of a loop in Python.
    done = 0
    while count - done >= STRINGS_BLOCK and at < len(data):
        if found := _block(length.format).match(data, at):
            at, done = found.end(), done + STRINGS_BLOCK
            continue
        few, at = _stepped_singly(length, data, at, STRINGS_BLOCK)
        done += few
        if few < STRINGS_BLOCK:
            return done, at
    few, at = _stepped_singly(length, data, at, count - done)
    return done + few, at


def _stepped_singly(length: struct.Struct, data: bytes, at: int, count: int) -> tuple[int, int]:
    unpack, size, done = length.unpack_from, length.size, 0
    try:
        for done in range(count):  # noqa: B007 (how far it came is the result)
            at += size + unpack(data, at)[0]
    except (struct.error, OverflowError):  # past the data, or so far past it that no index can say so
        return done, at
    return count, at


@cache
def _block(form: str) -> re.Pattern[bytes]:
    """A block of short strings: a 3, three or seven zeros, three bytes of any kind; or a 4, and so on."""
    zeros = re.escape(bytes(struct.calcsize(form) - 1))
    before, after = (b"", zeros) if form.startswith("<") else (zeros, b"")
    commonest_first = sorted(range(_SHORT), key=lambda n: abs(n - 8))
    strings = (re.escape(bytes([n])) + after + b".{%d}+" % n for n in commonest_first)
    return re.compile(b"(?s)(?:%b(?:%b)){%d}+" % (before, b"|".join(strings), STRINGS_BLOCK))
