"""A file on a web server, read forward in ranges that grow; only what is needed of it is fetched.

For URLs that the user gave. A server that knows no ranges sends the whole file: its start is read, and then hung up on.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from unslow.facts.values import Absence
from unslow.look.system.door import LookError
from unslow.look.system.web_address import Route
from unslow.look.system.web_request import Download, get

MOST_FETCHED_BYTES = 64 * 1024**2
FIRST_RANGE_BYTES, LARGEST_RANGE_BYTES = 1024**2, 8 * 1024**2

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_WHOLE, _RANGE = 200, 206
_REFUSALS = {
    200: "sends the whole file where a part of it was asked for",
    401: "answers 401: it asks for a login, and this program never sends one",
    403: "answers 403: it lets nobody in without a login, or not any more",
    404: "answers 404: not there",
    416: "answers 416: the file is shorter than its header says",
}


@contextmanager
def opened_url(url: str, timeout_s: float) -> Iterator["WebFile"]:
    """The file at a URL, for so many seconds in all."""
    file = WebFile(url, timeout_s)
    try:
        yield file
    finally:
        file.close()


class WebFile:
    """Bytes of the file in the order in which they lie."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self.size: int | None = None
        """Known once the server has answered, if it says so."""
        self._route, self._deadline = Route(url), time.monotonic() + timeout_s
        self._range_bytes, self._bytes_left = FIRST_RANGE_BYTES, MOST_FETCHED_BYTES
        self._answer: Download | None = None
        self._place = self._end = 0

    def close(self) -> None:
        """Hang up."""
        if self._answer:
            self._answer.close()

    def read(self, at: int, least: int, most: int) -> bytes:
        """From `least` to `most` bytes from `at` on, never before what was read last; fewer only at the end."""
        if at >= self._end:
            self._place = self._end = at  # what lies before it need not be fetched
        while self._place < at and self._next(at - self._place):
            pass
        data = bytearray()
        while len(data) < least and (chunk := self._next(most - len(data))):
            data += chunk
        return bytes(data)

    def _next(self, most: int) -> bytes:
        """The next bytes, of this answer or of the next; nothing at the end of the file."""
        if self.size is not None and self._place >= self.size:
            return b""
        if self._answer is None or self._place >= self._end:
            self.close()
            self._answer = self._ask()
        data = self._answer.next(min(most, self._end - self._place))
        if not data and self.size is not None:
            raise LookError("broke off in the middle of its answer")
        self._place += len(data)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise LookError(f"has a header of more than {MOST_FETCHED_BYTES >> 20} MiB")
        return data

    def _ask(self) -> Download:
        """The next range, or the whole file from a server that knows no ranges."""
        last = self._place + self._range_bytes - 1
        self._range_bytes = min(2 * self._range_bytes, LARGEST_RANGE_BYTES)
        headers = {"Range": f"bytes={self._place}-{last}", "Accept-Encoding": "identity"}
        answer = get(self._route, headers, self._deadline)
        self._answer = answer  # from here on it is closed with the file
        if answer.header("Content-Encoding") not in ("", "identity"):
            raise LookError("sends the file in a packed form, which was not asked for")
        if answer.status == _RANGE:
            self._end = self._checked_end(answer.header("Content-Range"), last)
        elif answer.status == _WHOLE and self._place == 0:
            self.size = answer.length
            self._end = MOST_FETCHED_BYTES + 1
        else:
            absence = Absence.NOT_FOUND if answer.status == 404 else Absence.FAILED  # noqa: PLR2004
            raise LookError(_REFUSALS.get(answer.status, f"answers {answer.status}"), absence)
        return answer

    def _checked_end(self, told: str, last: int) -> int:
        """Where the range ends that the answer says it holds; LookError where it was not asked for."""
        found = _CONTENT_RANGE.fullmatch(told)
        if not found or int(found[1]) != self._place or not self._place <= int(found[2]) <= last:
            raise LookError(f"was asked for the bytes {self._place} to {last} and answers {told[:64]!r}")
        if found[3] != "*":
            size = int(found[3])
            if size <= int(found[2]) or self.size not in (None, size):
                raise LookError(f"says that the file has {size} bytes, which can't be")
            self.size = size
        return int(found[2]) + 1
