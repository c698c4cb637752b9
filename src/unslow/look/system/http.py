"""The one HTTP client: a deadline for the whole exchange and a limit of size; no redirects, no proxies.

The standard library's: a fifth of the import time of the ones on the shelf, and all that is needed here.
"""

import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from math import inf
from typing import Any
from urllib.parse import urlsplit

from unslow.facts.values import Absence
from unslow.look.system import HTTP_LIMIT_BYTES, SILENCE_S, Answer, ExchangeError, Line, LookError

STREAM_LIMIT_BYTES, LINE_LIMIT_BYTES = 64 * 1024**2, 1024**2
_PIECE_BYTES, _BODY_PIECE_BYTES = 65_536, 262_144
_GZIP = 16 + zlib.MAX_WBITS
Opened = Callable[[socket.socket], None]
"""Is told of the socket of an exchange, on which another thread may end the waiting with `shut`."""

LOCAL_HOST = "127.0.0.1"
NOTHING_LISTENS, LATE = "nothing listens there", "did not answer in time"  # recordings hold these words, too
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 (read, not bound)
_LARGEST_PORT = 2**16 - 1


class TooLargeError(LookError):
    """The answer has more bytes than are taken."""


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
            connection = self._connect(deadline, silence_s)
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

    def _connect(self, deadline: float, silence_s: float) -> http.client.HTTPConnection:
        if self._kept is None:
            try:
                connection = http.client.HTTPConnection(self._host, self._port)
            except (http.client.HTTPException, ValueError) as error:
                raise LookError(f"{self._named!r} is not a URL that can be asked: {error}") from error
            connection.sock = self._open_socket(deadline, silence_s)
            if self._tls is not None:
                connection.default_port = http.client.HTTPS_PORT  # which is then left out of the header Host
            self._opened(connection.sock)
            self._kept = connection
        if self._socket is not None:
            self._socket.settimeout(min(silence_s, time_left(deadline, self._named)))
        return self._kept

    def _open_socket(self, deadline: float, silence_s: float) -> socket.socket:
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
            data = self._read_body(most, self.header("Content-Encoding").strip().lower() if unpack else "")
        except BaseException:
            self.close()
            raise
        self._connection.rest(server_closes=self._response.will_close)
        return data

    def _read_body(self, most: int, packing: str) -> bytes:
        if packing not in ("", "identity", "gzip", "x-gzip"):
            raise LookError(f"{self._named} compresses its responses as {packing[:20]!r}, which was not requested")
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
        raise ExchangeError("silent", f"{url} {LATE}")
    return left


def look_error(url: str, error: Exception) -> LookError:
    """What an exception of the standard library means."""
    why, hint = f"{url}: {getattr(error, 'strerror', '') or error or type(error).__name__}", ""
    if isinstance(error, TimeoutError):
        return ExchangeError("silent", f"{url} {LATE}")
    if isinstance(error, ConnectionRefusedError):
        return ExchangeError("refused", f"{url}: {NOTHING_LISTENS}", Absence.NOT_FOUND)
    if isinstance(error, http.client.IncompleteRead | ConnectionError | http.client.RemoteDisconnected):
        return ExchangeError("broke_off", f"{url} broke off in the middle of its answer")
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"{url}: its certificate is not trusted: {error.verify_message}"
        hint = "name the authority's file in SSL_CERT_FILE"
    elif isinstance(error, ssl.SSLError):  # before the first word; by far most servers of models speak plain HTTP
        why, hint = f"{url}: it does not use TLS", f"try http://{url.partition('://')[2]}"
    elif isinstance(error, socket.gaierror):
        why, hint = f"{url}: there is no host {split_url(url)[1]!r}", "is the name right, and is there a network?"
    return LookError(why, how_to_get=hint)


def check_host(url: str, named_hosts: frozenset[str]) -> None:
    """LookError unless the URL leads to loopback or to a host that the user named."""
    host = split_url(url)[1]
    if not is_loopback(host) and host not in named_hosts:
        raise LookError(f"the user did not name the host {host}, so nothing was sent to it", Absence.NOT_LOOKED)


def split_url(url: str) -> tuple[str, str, int | None, str]:
    """Scheme, host, port and path with query; LookError where it is not an http:// or https:// URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise LookError(f"{url!r} is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise LookError(f"{url!r} is not an http:// or https:// URL")
    return parts.scheme, parts.hostname, port, parts.path + (f"?{parts.query}" if parts.query else "")


def is_loopback(host: str) -> bool:
    """Whether a host name or address stays on this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str:
    """The host of a URL; empty where it has none, or is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_local_url(url: str) -> bool:
    """Whether a URL stays on this machine: a path elsewhere says nothing about a file here."""
    return is_loopback(host_of(url))


def reachable_host(host: str) -> str:
    """A host as a URL has it: who listens on every address can be asked on this machine's own."""
    bare = host.strip("[]")
    return LOCAL_HOST if bare in _EVERYWHERE else f"[{bare}]" if ":" in bare else bare


def is_port(text: str) -> bool:
    """Whether a text is a port that can be asked."""
    return text.isdecimal() and text.isascii() and len(text) <= len(str(_LARGEST_PORT)) and int(text) <= _LARGEST_PORT
