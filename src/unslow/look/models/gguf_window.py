"""A file read forward through a window: whatever lengths it claims, memory and time stay bounded."""

import struct
from typing import Any, BinaryIO

from unslow.look.system import LookError

WINDOW_BYTES = 4 * 1024**2
MOST_WINDOWS = 64
MOST_KEPT_BYTES = 8 * 1024**2
MOST_STRINGS = 2_000_000  # in all arrays together; the largest vocabularies, with their merges, have under a million


class Window:
    """A few megabytes of the file, moved forward as they are used up."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self._data, self._start, self._at = b"", 0, 0
        self._moves_left, self._text_left, self._strings_left = MOST_WINDOWS, MOST_KEPT_BYTES, MOST_STRINGS
        self._order, self._length = "<", struct.Struct("<Q")

    def set_format(self, order: str, length: str) -> None:
        """Byte order, and the type of lengths and counts."""
        self._order, self._length = order, struct.Struct(order + length)

    @property
    def left(self) -> int:
        """Bytes from here to the end of the file."""
        return self._size - self._start - self._at

    def skip(self, count: int) -> None:
        """Go forward without looking."""
        if count > self.left:
            raise LookError(f"is cut short: its header speaks of {count} more bytes where {self.left} are left")
        self._at += count

    def take(self, count: int) -> bytes:
        """The next bytes, fewer than a window has."""
        start = self._at
        self.skip(count)
        if self._at > len(self._data):
            self._at = start
            self._move()
            start, self._at = 0, count
        return self._data[start : self._at]

    def _move(self) -> None:
        """Let the window start here."""
        self._moves_left -= 1
        if self._moves_left < 0:
            raise LookError(f"has a header of more than {MOST_WINDOWS * WINDOW_BYTES >> 20} MiB")
        wanted = min(WINDOW_BYTES, self.left)
        self._start, self._at = self._start + self._at, 0
        self._file.seek(self._start)
        self._data = self._file.read(wanted)
        if len(self._data) < wanted:
            raise LookError("became shorter while it was read")

    def numbers(self, code: str, count: int = 1) -> tuple[Any, ...]:
        """So many numbers of one type, by its code in `struct`."""
        form = f"{self._order}{count}{code}"
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def integer(self, code: str) -> int:
        """One whole number."""
        return int(self.numbers(code)[0])

    def length(self) -> int:
        """A length or a count."""
        return int(self._length.unpack(self.take(self._length.size))[0])

    def text(self, count: int) -> str:
        """A text that is kept."""
        self._text_left -= count
        if self._text_left < 0:
            raise LookError(f"has more than {MOST_KEPT_BYTES >> 20} MiB of names and short texts")
        return self.take(count).decode("utf-8", "replace")

    def skip_strings(self, count: int) -> None:
        """Step over so many strings, from window to window."""
        self._strings_left -= bounded(count, self._strings_left, "strings")
        while count:
            done, at = _step(self._length, self._data, self._at, count)
            self.skip(at - self._at)
            count -= done
            if count and self.left < self._length.size:
                raise LookError("is cut short in a list of strings")
            if count:
                self._move()


def _step(length: struct.Struct, data: bytes, at: int, count: int) -> tuple[int, int]:
    """How many of the strings from `at` on have their length inside the data, and where the next one starts."""
    unpack, size, done = length.unpack_from, length.size, 0
    try:
        for done in range(count):  # noqa: B007 (how far it came is the result)
            at += size + unpack(data, at)[0]  # runs half a million times for a large vocabulary
    except (struct.error, OverflowError):  # past the window, or so far past it that no index can say so
        return done, at
    return count, at


def bounded(count: int, most: int, what: str) -> int:
    """The count, or a LookError where it is larger than anything sound."""
    if count > most:
        raise LookError(f"speaks of {count} {what}; this program reads up to {most}")
    return count
