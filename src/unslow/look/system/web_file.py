"""A file on a web server, read forward in ranges that grow; only what is needed of it is fetched.

For URLs that the user gave: redirects are followed, but never from outside into a private network. A server that
knows no ranges sends the whole file: its start is read, and then hung up on.
"""

import ipaddress
import re
import socket
import time
from collections.abc import Iterable, Mapping
from urllib.parse import urljoin

from unslow.facts.values import Absence
from unslow.look.system import LookError
from unslow.look.system.http import Connection, Response, split_url

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
MOST_REDIRECTS = 5
MOST_FETCHED_BYTES = 64 * 1024**2
FIRST_RANGE_BYTES, LARGEST_RANGE_BYTES = 1024**2, 8 * 1024**2

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_RANGE_PIECE_BYTES = 65_536
_WHOLE, _RANGE = 200, 206
_REDIRECTS = (301, 302, 303, 307, 308)
_SILENCE_S = 15.0
_REFUSALS = {
    200: "sends the whole file although a part was requested",
    401: "answers 401: it asks for a login, and this program never sends one",
    403: "answers 403: it needs a login, or access was removed",
    404: "answers 404: not there",
    416: "answers 416: the file is shorter than its header says",
}


class WebFile:
    """Bytes of the file at a URL in order, within a limit of seconds."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self.size: int | None = None
        """Known once the server has answered, if it says so."""
        self._route, self._deadline = Route(url), time.monotonic() + timeout_s
        self._range_bytes, self._bytes_left = FIRST_RANGE_BYTES, MOST_FETCHED_BYTES
        self._answer: Response | None = None
        self._place = self._end = 0

    def close(self) -> None:
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
        if self.size is not None and self._place >= self.size:
            return b""
        if self._answer is None or self._place >= self._end:
            self.close()
            self._answer = self._ask()
        data = self._answer.read(min(most, self._end - self._place, _RANGE_PIECE_BYTES))
        if not data and self.size is not None:
            raise LookError("broke off in the middle of its answer")
        self._place += len(data)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise LookError(f"has a header of more than {MOST_FETCHED_BYTES >> 20} MiB")
        return data

    def _ask(self) -> Response:
        last = self._place + self._range_bytes - 1
        self._range_bytes = min(2 * self._range_bytes, LARGEST_RANGE_BYTES)
        headers = {"Range": f"bytes={self._place}-{last}", "Accept-Encoding": "identity"}
        self._answer = answer = self._route.get(headers, self._deadline)  # from here on it is closed with the file
        if answer.header("Content-Encoding") not in ("", "identity"):
            raise LookError("sends the file compressed, which was not requested")
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
                raise LookError(f"reports a file size of {size} bytes, which is not possible")
            self.size = size
        return int(found[2]) + 1


class Route:
    """The way from the URL that was given to the one that answers."""

    def __init__(self, given: str) -> None:
        self.given = self.url = given
        self._redirects_left = MOST_REDIRECTS
        self._from_inside: bool | None = None

    def get(self, headers: Mapping[str, str], deadline: float) -> Response:
        """The answer of wherever the route leads; redirects are followed."""
        while True:
            connection = Connection(self.url, named=self.given, addresses=self.addresses)
            answer = connection.send("GET", split_url(self.url)[3], None, headers, deadline, _SILENCE_S)
            if answer.status not in _REDIRECTS:
                return answer
            answer.close()
            self.follow(answer.header("Location"))

    def addresses(self) -> list[Address]:
        """Where to connect to, looked up once and checked; LookError where the way must not lead there."""
        _, host, port, _ = split_url(self.url)
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise LookError(f"the host {host!r} is not known: {error}") from error
        found = [ipaddress.ip_address(str(where[0]).partition("%")[0]) for *_, where in answers]
        if self._from_inside is None:
            self._from_inside = is_inside(found)
        if is_inside(found) and not self._from_inside:
            raise LookError(f"leads to {host}, in a private network, which is not followed")
        return found

    def follow(self, location: str | None) -> None:
        self._redirects_left -= 1
        if self._redirects_left < 0:
            raise LookError(f"redirects more than {MOST_REDIRECTS} times")
        self.url = redirect_target(self.url, location)


def is_inside(found: Iterable[Address]) -> bool:
    """Whether any of them is not an address of the public internet: loopback, a home or a company's network."""
    return any(a.is_multicast or not a.is_global for a in found)


def redirect_target(url: str, location: str | None) -> str:
    """The URL that an answer sends to; LookError where that is not a web address, or no longer an encrypted one."""
    if not location:
        raise LookError("redirects to nowhere")
    try:
        target = urljoin(url, location)
    except ValueError as error:
        raise LookError(f"redirects to {location[:64]!r}: {error}") from error
    scheme, host, _, _ = split_url(target)
    if (split_url(url)[0], scheme) == ("https", "http"):
        raise LookError(f"redirects from https:// to http://{host}, which is not followed")
    return target
