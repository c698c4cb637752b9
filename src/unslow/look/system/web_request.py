"""One GET to an address that was checked, with an answer that is taken piece by piece and can be left half read."""

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping

from unslow.look.system.http import look_error, split_url, time_left
from unslow.look.system.web_address import Address, Route

SILENCE_S = 15.0

_CHUNK_BYTES = 65536
_REDIRECTS = (301, 302, 303, 307, 308)


class Download:
    """An answer: status and headers, and a body that comes as it is asked for."""

    def __init__(self, response: http.client.HTTPResponse, line: "_Line") -> None:
        self.status, self.length = response.status, response.length
        self._response, self._line = response, line

    def header(self, name: str) -> str:
        """A header, or an empty text."""
        return self._response.getheader(name) or ""

    def next(self, most: int) -> bytes:
        """The next bytes of the body, nothing at its end."""
        with self._line.failures():
            return self._response.read1(min(most, _CHUNK_BYTES))

    def close(self) -> None:
        """Hang up, whatever is still to come."""
        self._response.close()
        self._line.close()


def get(route: Route, headers: Mapping[str, str], deadline: float) -> Download:
    """The answer of wherever the route leads; redirects are followed."""
    while True:
        answer = _get(route, headers, deadline)
        if answer.status not in _REDIRECTS:
            return answer
        answer.close()
        route.follow(answer.header("Location"))


def _get(route: Route, headers: Mapping[str, str], deadline: float) -> Download:
    scheme, host, port, path = split_url(route.url)
    line = _Line(route.given, deadline)
    try:
        with line.failures():
            kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
            connection = kind(host, port)
            connection.sock = line.open(route.addresses(), connection.port, host if scheme == "https" else "")
            connection.request("GET", path or "/", headers=dict(headers))
            return Download(connection.getresponse(), line)
    except BaseException:
        line.close()
        raise


class _Line:
    """A socket with a deadline: a server that sends a byte now and then would never let a timeout end."""

    def __init__(self, named: str, deadline: float) -> None:
        self._named, self._deadline = named, deadline
        self._socket: socket.socket | None = None
        self._late = threading.Timer(time_left(deadline, named), self._hang_up)
        self._late.daemon = True
        self._late.start()

    def open(self, found: Iterable[Address], port: int, tls_host: str) -> socket.socket:
        """Connect to one of the addresses that were checked: another lookup of the name might give others."""
        failure = OSError("has no address")
        for address in found:
            try:
                plain = socket.create_connection((str(address), port), min(SILENCE_S, self._left()))
            except OSError as error:
                failure = error
            else:
                self._socket = plain
                return self._encrypted(plain, tls_host) if tls_host else plain
        raise failure

    def _encrypted(self, plain: socket.socket, host: str) -> socket.socket:
        context = ssl.create_default_context()
        self._socket = line = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
        line.do_handshake()  # only now, so that one without an end can be ended
        return line

    def _left(self) -> float:
        return time_left(self._deadline, self._named)

    def _hang_up(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # not that of TLS, which is being read from

    def close(self) -> None:
        """Hang up."""
        self._late.cancel()
        if self._socket is not None:
            self._socket.close()

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Everything that a server could do, as a LookError; past the deadline, that is the reason."""
        try:
            yield
            self._left()  # an answer that was cut off then reads as if it had ended
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._left()
            raise look_error(self._named, error) from error
