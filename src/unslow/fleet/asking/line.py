"""One connection that is kept, with a deadline for each exchange and a limit of size after unpacking.

No redirects, no proxies of the environment: what is sent goes to the address that the user gave, and nowhere else.
"""

import http.client
import socket
import ssl
import threading
import time
import zlib
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from unslow.fleet.asking.access import Access
from unslow.fleet.asking.tls import context_of, tls_error
from unslow.look.system import LookError
from unslow.look.system.door import ExchangeError
from unslow.look.system.http import is_loopback, look_error

_CHUNK_BYTES = 262_144
_GZIP = 16 + zlib.MAX_WBITS


class Reply(NamedTuple):
    """An answer, whatever its status."""

    status: int
    body: bytes
    headers: http.client.HTTPMessage

    def header(self, name: str) -> str:
        """A header, or an empty text."""
        return self.headers.get(name) or ""


class TooLargeError(Exception):
    """The answer has more bytes than are taken."""


class CutShortError(ExchangeError):
    """The answer began and did not end, or can't be unpacked: with this query or on this way it may do so again."""

    def __init__(self, shown_url: str) -> None:
        super().__init__("error", f"{shown_url} broke off in the middle of its answer")


class Line:
    """The connection to one server; LookError for whatever goes wrong on the way, UserError where TLS can't be."""

    def __init__(self, access: Access) -> None:
        parts = urlsplit(access.url)
        self._shown, self._most = access.shown_url, access.most_bytes
        self._host, self._tls = parts.hostname or "", context_of(access) if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        # Packing takes a tenth more of the server's time, which a network is worth and this machine is not.
        encoding = "identity" if is_loopback(self._host) else "gzip"
        self._headers = {"Accept": "application/json", "Accept-Encoding": encoding, **access.sent_headers}
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._ended = False

    def exchange(self, method: str, path: str, form: bytes | None, deadline_s: float) -> Reply:
        """One question and its answer; a connection that was closed while nobody spoke is opened again."""
        was_open = self._connection is not None
        try:
            return self._exchange(method, path, form, deadline_s)
        except ExchangeError as error:
            if not was_open or error.kind != "broke_off":
                raise
        return self._exchange(method, path, form, deadline_s)

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
        if self._socket is not None:
            self._socket.close()
        self._connection = self._socket = None

    def end(self) -> None:
        """Hang up for good: whoever still waits for an answer, in whichever thread, is told so now."""
        self._ended = True
        self._hang_up()
        self.close()

    def _exchange(self, method: str, path: str, form: bytes | None, deadline_s: float) -> Reply:
        # A timeout of its own for each byte is none.
        late = threading.Timer(self._left(deadline_s), self._hang_up)
        late.daemon = True
        late.start()
        try:
            reply = self._answer(self._opened(deadline_s), method, path, form)
            self._left(deadline_s)  # what was cut off then reads as if it had ended
        except (OSError, http.client.HTTPException, ValueError, AttributeError, zlib.error) as error:
            self.close()
            self._left(deadline_s)
            raise tls_error(self._shown, error) or self._look_error(error) from error
        except LookError:
            self.close()
            self._left(deadline_s)  # hung up on by ourselves
            raise
        except BaseException:
            self.close()
            raise
        finally:
            late.cancel()
        return reply

    def _opened(self, deadline_s: float) -> http.client.HTTPConnection:
        if self._ended:
            raise LookError(f"{self._shown} is not asked any more")
        if self._connection is None:
            left = self._left(deadline_s)
            self._socket = socket.create_connection((self._host, self._port), left)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                self._socket = line = self._tls.wrap_socket(
                    self._socket, server_hostname=self._host, do_handshake_on_connect=False
                )
                line.do_handshake()  # only now, so that one without an end can be ended
            self._connection = self._of_scheme()
            self._connection.sock = self._socket
        if self._socket is not None:
            self._socket.settimeout(self._left(deadline_s))
        return self._connection

    def _of_scheme(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port)

    def _answer(self, connection: http.client.HTTPConnection, method: str, path: str, form: bytes | None) -> Reply:
        kind = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
        connection.request(method, path, form, self._headers | kind)
        with connection.getresponse() as response:
            try:
                body = self._body(response)
            except (ConnectionError, http.client.IncompleteRead, ssl.SSLError, zlib.error) as error:
                raise CutShortError(self._shown) from error
            if response.length:
                raise CutShortError(self._shown)
            closes = response.will_close
        if closes:
            self.close()
        return Reply(response.status, body, response.headers)

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        packing = (response.getheader("Content-Encoding") or "identity").strip().lower()
        if packing not in ("identity", "gzip", "x-gzip"):
            raise LookError(f"{self._shown} packs its answers as {packing[:20]!r}, which was not asked for")
        unpacker = zlib.decompressobj(_GZIP) if packing != "identity" else None
        data = bytearray()
        while chunk := response.read1(_CHUNK_BYTES):
            data += unpacker.decompress(chunk, self._most + 1 - len(data)) if unpacker else chunk
            if len(data) > self._most:
                raise TooLargeError(f"its answer has more than {self._most / 1e6:,.0f} MB")
        if unpacker and not unpacker.eof and data:
            raise CutShortError(self._shown)
        return bytes(data)

    def _look_error(self, error: Exception) -> LookError:
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return look_error(self._shown, ConnectionResetError())
        if isinstance(error, http.client.HTTPException) and not isinstance(error, ConnectionError):
            return LookError(f"{self._shown} does not speak HTTP")
        return look_error(self._shown, error)

    def _hang_up(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # not that of TLS, which is being read from

    def _left(self, deadline_s: float) -> float:
        left = deadline_s - time.monotonic()
        if left <= 0:
            self.close()
            raise ExchangeError("silent", f"{self._shown} did not answer in time")
        return left
