"""The one HTTP client: a deadline for the whole exchange and a limit of size; no redirects, no proxies.

The standard library's: a fifth of the import time of the ones on the shelf, and all that is needed here. And files on a
web server, read in ranges.
"""

import http.client
import ipaddress
import json
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from math import inf
from typing import Any
from urllib.parse import urljoin, urlsplit

from unslow.facts.values import Absence
from unslow.look.system import HTTP_LIMIT_BYTES, SILENCE_S, Answer, ExchangeError, Line, LookError

STREAM_LIMIT_BYTES, LINE_LIMIT_BYTES = 64 * 1024**2, 1024**2
_PIECE_BYTES, _BODY_PIECE_BYTES = 65_536, 262_144
_GZIP = 16 + zlib.MAX_WBITS
Opened = Callable[[socket.socket], None]
"""Is told of the socket of an exchange, on which another thread may end the waiting with `shut`."""


def is_loopback(host: str) -> bool:
    """Whether a host name or address stays on this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(url: str, named_hosts: frozenset[str]) -> None:
    """LookError unless the URL leads to loopback or to a host that the user named."""
    host = split_url(url)[1]
    if not is_loopback(host) and host not in named_hosts:
        raise LookError(f"the user did not name the host {host}, so nothing was sent to it", Absence.NOT_LOOKED)


def split_url(url: str) -> tuple[str, str, int | None, str]:
    """Scheme, host, port and path with query; LookError where it is no http:// or https:// URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise LookError(f"{url!r} is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise LookError(f"{url!r} is not an http:// or https:// URL")
    return parts.scheme, parts.hostname, port, parts.path + (f"?{parts.query}" if parts.query else "")


def request(
    method: str, url: str, body: Any, headers: Mapping[str, str], timeout_s: float, opened: Opened = lambda _: None
) -> Answer:
    """One exchange; as the answer comes whole, silence before it is nothing to hurry about."""
    with closing(Connection(url, opened=opened)) as connection:
        response = connection.send_json(method, _payload(body), headers, time.monotonic() + timeout_s)
        try:
            data = response.body(HTTP_LIMIT_BYTES)
        except TooLargeError as error:
            raise LookError(f"{url} answered more than {HTTP_LIMIT_BYTES >> 20} MiB") from error
        return Answer(response.status, data, response.header("Content-Type"))


def stream(
    url: str,
    body: Any,
    headers: Mapping[str, str],
    timeout_s: float,
    silence_s: float = SILENCE_S,
    opened: Opened = lambda _: None,
) -> Iterator[Line]:
    """POST, and the answer line by line; the clock starts when there is nothing left to do but send."""
    payload = _payload(body)
    with closing(Connection(url, opened=opened)) as connection:
        start = time.monotonic()
        response = connection.send_json("POST", payload, headers, start + timeout_s, silence_s)
        if response.status != http.client.OK:
            text = response.read()[:200].decode("utf-8", "replace")
            raise ExchangeError("error", f"{url} answered {response.status}: {text.strip()}")
        rest, size = b"", 0
        for piece in response.pieces():
            arrived = time.monotonic() - start
            *lines, rest = (rest + piece).split(b"\n")
            size += len(piece)
            if size > STREAM_LIMIT_BYTES or len(rest) > LINE_LIMIT_BYTES:
                raise LookError(f"{url} streamed more than an answer can be: {size >> 10} KiB")
            for line in lines:
                yield Line(arrived, line.decode("utf-8", "replace").rstrip("\r"))
        if rest:
            yield Line(time.monotonic() - start, rest.decode("utf-8", "replace"))


def _payload(body: Any) -> bytes | None:
    return None if body is None else json.dumps(body).encode()


class TooLargeError(LookError):
    """The answer has more bytes than are taken."""


class Connection:
    """The way to one server, kept from one exchange to the next; LookError for whatever goes wrong on it.

    `named` is what errors call the server. `addresses` says where to connect to, for a host whose
    addresses were looked up and checked.
    """

    def __init__(
        self,
        url: str,
        *,
        named: str = "",
        tls: ssl.SSLContext | None = None,
        addresses: Callable[[], Iterable[object]] | None = None,
        opened: Opened = lambda _: None,
    ) -> None:
        scheme, self._host, port, self._path = split_url(url)
        self._tls = (tls or ssl.create_default_context()) if scheme == "https" else None
        if self._tls is not None:
            self._tls.set_alpn_protocols(["http/1.1"])  # the only one that is spoken here
        self._port = port or (http.client.HTTPS_PORT if self._tls else http.client.HTTP_PORT)
        self._named, self._addresses, self._opened = named or url, addresses or (lambda: [self._host]), opened
        self._kept: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None
        self._late: threading.Timer | None = None

    @property
    def is_open(self) -> bool:
        """Whether the server was reached, and has not hung up that we know of."""
        return self._kept is not None

    def send_json(
        self, method: str, body: bytes | None, headers: Mapping[str, str], deadline: float, silence_s: float = inf
    ) -> "Response":
        """Send to the URL itself; a redirect is an error."""
        response = self.send(
            method, self._path, body, {"Content-Type": "application/json", **headers}, deadline, silence_s
        )
        if 300 <= response.status < 400:  # noqa: PLR2004 (the 3xx class)
            raise LookError(f"{self._named} redirects to {response.header('Location')!r}, which is not followed")
        return response

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        deadline: float,
        silence_s: float = inf,
    ) -> "Response":
        """The answer from its head on, to be read before the deadline, and without a longer silence in it."""
        # A timeout of its own for each byte is none.
        self._late = threading.Timer(time_left(deadline, self._named), self.shut)
        self._late.daemon = True
        self._late.start()
        try:
            connection = self._connected(deadline, silence_s)
            connection.request(method, path or "/", body, dict(headers))
            self._response = response = connection.getresponse()
            time_left(deadline, self._named)  # headers that were cut off read as if they had ended
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            self.close()
            time_left(deadline, self._named)
            raise look_error(self._named, error) from error
        except BaseException:
            self.close()
            raise
        return Response(self, response, self._named, deadline)

    def _connected(self, deadline: float, silence_s: float) -> http.client.HTTPConnection:
        if self._kept is None:
            try:
                connection = http.client.HTTPConnection(self._host, self._port)
            except (http.client.HTTPException, ValueError) as error:
                raise LookError(f"{self._named!r} is not a URL that can be asked: {error}") from error
            connection.sock = self._reached(deadline, silence_s)
            if self._tls is not None:
                connection.default_port = http.client.HTTPS_PORT  # which is then left out of the header Host
            self._opened(connection.sock)
            self._kept = connection
        if self._socket is not None:
            self._socket.settimeout(min(silence_s, time_left(deadline, self._named)))
        return self._kept

    def _reached(self, deadline: float, silence_s: float) -> socket.socket:
        failure = OSError("has no address")
        for address in self._addresses():
            try:
                patience_s = min(silence_s, time_left(deadline, self._named))
                self._socket = found = socket.create_connection((str(address), self._port), patience_s)
            except OSError as error:
                failure = error
                continue
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return found
            self._socket = line = self._tls.wrap_socket(
                found, server_hostname=self._host, do_handshake_on_connect=False
            )
            line.do_handshake()  # only now, so that one without an end can be ended
            return line
        raise failure

    def shut(self) -> None:
        if self._socket is not None:
            shut(self._socket)

    def rest(self, *, server_closes: bool) -> None:
        if server_closes:
            self.close()
        if self._late is not None:
            self._late.cancel()
        if self._response is not None:
            self._response.close()

    def close(self) -> None:
        if self._late is not None:
            self._late.cancel()
        # A response has the socket where the server closes it after the answer.
        for one in (self._response, self._kept, self._socket):
            if one is not None:
                one.close()
        self._response = self._kept = self._socket = None


class Response:
    """An answer: status and headers, and a body that comes as it is asked for."""

    def __init__(self, connection: Connection, response: http.client.HTTPResponse, named: str, deadline: float) -> None:
        self.status, self.headers, self.length = response.status, response.headers, response.length
        self._connection, self._response, self._named, self._deadline = connection, response, named, deadline

    def header(self, name: str) -> str:
        return self.headers.get(name) or ""

    def read(self, most: int = _PIECE_BYTES) -> bytes:
        """The next bytes of the body, nothing at its end."""
        try:
            data = self._response.read1(most)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            time_left(self._deadline, self._named)
            broke_off = isinstance(error, ssl.SSLError)  # TLS that spoke before
            raise look_error(self._named, ConnectionResetError() if broke_off else error) from error
        time_left(self._deadline, self._named)  # what was cut off then reads as if it had ended
        return data

    def pieces(self, most: int = _PIECE_BYTES) -> Iterator[bytes]:
        while data := self.read(most):
            yield data
        if self._response.length:
            raise self._broken_off()

    def body(self, most: int, *, unpack: bool = False) -> bytes:
        """All of it, after which the connection can be used again; `unpack` for those who asked for gzip."""
        try:
            data = self._whole(most, self.header("Content-Encoding").strip().lower() if unpack else "")
        except BaseException:
            self.close()
            raise
        self._connection.rest(server_closes=self._response.will_close)
        return data

    def _whole(self, most: int, packing: str) -> bytes:
        if packing not in ("", "identity", "gzip", "x-gzip"):
            raise LookError(f"{self._named} packs its answers as {packing[:20]!r}, which was not asked for")
        unpacker = zlib.decompressobj(_GZIP) if "gzip" in packing else None
        data = bytearray()
        try:
            for piece in self.pieces(_BODY_PIECE_BYTES):
                data += unpacker.decompress(piece, most + 1 - len(data)) if unpacker else piece
                if len(data) > most:
                    raise TooLargeError(f"{self._named} answered more than {most} bytes")
        except zlib.error as error:
            raise self._broken_off() from error
        if unpacker and not unpacker.eof and data:
            raise self._broken_off()
        return bytes(data)

    def close(self) -> None:
        self._connection.close()

    def _broken_off(self) -> ExchangeError:
        return ExchangeError("broke_off", f"{self._named} broke off in the middle of its answer")


def shut(waited_on: socket.socket) -> None:
    """Wake whoever waits for the answer; closing would not."""
    with suppress(OSError):
        socket.socket.shutdown(waited_on, socket.SHUT_RDWR)  # not that of TLS, which is being read from


def time_left(deadline: float, url: str) -> float:
    """Seconds to the deadline; LookError once there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise ExchangeError("silent", f"{url} did not answer in time")
    return left


def look_error(url: str, error: Exception) -> LookError:
    """What an exception of the standard library means."""
    why, hint = f"{url}: {getattr(error, 'strerror', '') or error or type(error).__name__}", ""
    if isinstance(error, TimeoutError):
        return ExchangeError("silent", f"{url} did not answer in time")
    if isinstance(error, ConnectionRefusedError):
        return ExchangeError("refused", f"{url}: nothing listens there", Absence.NOT_FOUND)
    if isinstance(error, http.client.IncompleteRead | ConnectionError | http.client.RemoteDisconnected):
        return ExchangeError("broke_off", f"{url} broke off in the middle of its answer")
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"{url}: its certificate is not trusted: {error.verify_message}"
        hint = "name the authority's file in SSL_CERT_FILE"
    elif isinstance(error, ssl.SSLError):  # before the first word; by far most servers of models speak plain HTTP
        why, hint = f"{url}: it does not speak TLS", f"try http://{url.partition('://')[2]}"
    elif isinstance(error, socket.gaierror):
        why, hint = f"{url}: no host is called {split_url(url)[1]!r}", "is the name right, and is there a network?"
    return LookError(why, how_to_get=hint)


LOCAL_HOST = "127.0.0.1"
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 (read, not bound)
_LARGEST_PORT = 2**16 - 1


def reachable_host(host: str) -> str:
    """A host as a URL has it: who listens on every address can be asked on this machine's own."""
    bare = host.strip("[]")
    return LOCAL_HOST if bare in _EVERYWHERE else f"[{bare}]" if ":" in bare else bare


def is_port(text: str) -> bool:
    """Whether a text is a port that can be asked."""
    return text.isdecimal() and text.isascii() and len(text) <= len(str(_LARGEST_PORT)) and int(text) <= _LARGEST_PORT


def host_of(url: str) -> str:
    """The host of a URL; empty where it has none, or is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_local_url(url: str) -> bool:
    """Whether a URL stays on this machine: a path elsewhere says nothing about a file here."""
    return is_loopback(host_of(url))


# A file on a web server, read forward in ranges that grow; only what is needed of it is fetched.
# For URLs that the user gave: redirects are followed, but never from outside into a private network. A server that
# knows no ranges sends the whole file: its start is read, and then hung up on.

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
    200: "sends the whole file where a part of it was asked for",
    401: "answers 401: it asks for a login, and this program never sends one",
    403: "answers 403: it lets nobody in without a login, or not any more",
    404: "answers 404: not there",
    416: "answers 416: the file is shorter than its header says",
}


class WebFile:
    """Bytes of the file at a URL in the order in which they lie, for so many seconds in all."""

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
        self.url = redirected(self.url, location)


def is_inside(found: Iterable[Address]) -> bool:
    """Whether any of them is not an address of the public internet: loopback, a home or a company's network."""
    return any(a.is_multicast or not a.is_global for a in found)


def redirected(url: str, location: str | None) -> str:
    """The URL that an answer sends to; LookError where that is no web address, or no longer an encrypted one."""
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
