"""A file read forward through a window: whatever lengths it claims, memory and time stay bounded."""

import struct
from typing import Any

from unslow.look.models.gguf.sources import Source
from unslow.look.models.gguf.strings import stepped
from unslow.look.system import LookError

WINDOW_BYTES = 128 * 1024
MOST_HEADER_BYTES = 256 * 1024**2
MOST_KEPT_BYTES = 4 * 1024**2
MOST_STRINGS = 2_000_000  # in all arrays together; the largest vocabularies, with their merges, have under a million

_INTEGER_BYTES = 32  # what Python takes for one


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
        """Bytes from the start of the file to here."""
        return self._start + self._at

    @property
    def size(self) -> int | None:
        """Bytes of the file; None where only its end will tell."""
        return self._source.size

    def check_room(self, count: int) -> None:
        """LookError where the file can't have so many more bytes of header."""
        size = self.size
        if size is None and count > MOST_HEADER_BYTES - self.place:
            raise _too_long()
        if size is not None and count > size - self.place:
            left = max(0, size - self.place)
            raise LookError(f"is cut short: its header speaks of {count} more bytes where {left} are left")

    def skip(self, count: int) -> None:
        """Go forward without looking."""
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
        """Let the window start here and hold at least so many bytes."""
        kept, place = self._data[self._at :], self.place
        wanted = least - len(kept)
        data = self._source.read(place + len(kept), wanted, WINDOW_BYTES - len(kept))
        if len(data) < wanted:
            raise LookError("is cut short: it ends within its header")
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise _too_long()
        self._data, self._start, self._at = kept + data, place, 0

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

    def lengths(self, count: int) -> tuple[int, ...]:
        """So many lengths in a row."""
        return self.numbers(self._length.format[1:], count)

    def kept(self, count: int) -> bytes:
        """The bytes of a text that will be kept."""
        self._keep(count)
        return self.take(count)

    def kept_integers(self, code: str, count: int) -> list[int]:
        """Whole numbers or flags that will be kept."""
        self._keep(count * _INTEGER_BYTES)
        return [int(n) for n in self.numbers(code, count)]

    def _keep(self, count: int) -> None:
        self._keep_left -= count
        if self._keep_left < 0:
            raise LookError(f"has more than {MOST_KEPT_BYTES >> 20} MiB of names, short texts and short arrays")

    def check_items(self, count: int, least_bytes: int, most: int, what: str) -> None:
        """LookError where so many things, each of `least_bytes` or more, can't be in the rest of the file."""
        if count > most:
            raise LookError(f"speaks of {count} {what}; this program reads up to {most}")
        self.check_room(count * least_bytes)

    def skip_strings(self, count: int) -> None:
        """Step over so many strings, from window to window."""
        self.check_items(count, self._length.size, self._strings_left, "strings")
        self._strings_left -= count
        while count:
            done, at = stepped(self._length, self._data, self._at, count)
            self.skip(at - self._at)
            count -= done
            if count and not done:  # the next length is not in the window yet
                self.check_room(self._length.size)
                self._move(self._length.size)


def _too_long() -> LookError:
    return LookError(f"has a header of more than {MOST_HEADER_BYTES >> 20} MiB")
