"""HTTP with a deadline for the whole exchange and a limit of size; no redirects, no proxies.

The standard library's client: a fifth of the import time of the ones on the shelf, and all that loopback needs.
"""

import contextlib
import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from unslow.facts.values import Absence
from unslow.look.system.door import HTTP_LIMIT_BYTES, SILENCE_S, Answer, ExchangeError, Line, LookError

STREAM_LIMIT_BYTES, LINE_LIMIT_BYTES = 64 * 1024**2, 1024**2
_CHUNK_BYTES = 65536
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


def request(
    method: str, url: str, body: Any, headers: Mapping[str, str], timeout_s: float, opened: Opened = lambda _: None
) -> Answer:
    """One exchange; as the answer comes whole, silence before it is nothing to hurry about."""
    deadline = time.monotonic() + timeout_s
    connection, response = _exchange(method, url, _payload(body), headers, deadline, timeout_s, opened)
    try:
        data = bytearray()
        for chunk in _chunks(connection, response, url, deadline, timeout_s):
            data += chunk
            if len(data) > HTTP_LIMIT_BYTES:
                raise LookError(f"{url} answered more than {HTTP_LIMIT_BYTES >> 20} MiB")
        return Answer(response.status, bytes(data), response.getheader("Content-Type") or "")
    finally:
        response.close()  # which has the socket where the server closes it after the answer
        connection.close()


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
    start = time.monotonic()
    deadline = start + timeout_s
    connection, response = _exchange("POST", url, payload, headers, deadline, silence_s, opened)
    try:
        if response.status != http.client.OK:
            text = next(_chunks(connection, response, url, deadline, silence_s), b"")[:200].decode("utf-8", "replace")
            raise ExchangeError("error", f"{url} answered {response.status}: {text.strip()}")
        rest, size = b"", 0
        for chunk in _chunks(connection, response, url, deadline, silence_s):
            arrived = time.monotonic() - start
            *lines, rest = (rest + chunk).split(b"\n")
            size += len(chunk)
            if size > STREAM_LIMIT_BYTES or len(rest) > LINE_LIMIT_BYTES:
                raise LookError(f"{url} streamed more than an answer can be: {size >> 10} KiB")
            for line in lines:
                yield Line(arrived, line.decode("utf-8", "replace").rstrip("\r"))
        if rest:
            yield Line(time.monotonic() - start, rest.decode("utf-8", "replace"))
    finally:
        response.close()
        connection.close()


def _payload(body: Any) -> bytes | None:
    return None if body is None else json.dumps(body).encode()


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


def _exchange(
    method: str,
    url: str,
    payload: bytes | None,
    headers: Mapping[str, str],
    deadline: float,
    silence_s: float,
    opened: Opened,
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    scheme, host, port, path = split_url(url)
    kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(host, port, timeout=min(silence_s, time_left(deadline, url)))
    except (http.client.HTTPException, ValueError) as error:
        raise LookError(f"{url!r} is not a URL that can be asked: {error}") from error
    late = threading.Timer(time_left(deadline, url), _shut, (connection,))  # a timeout of its own for each byte is none
    late.daemon = True
    late.start()
    try:
        connection.connect()
        opened(connection.sock)
        connection.request(method, path or "/", payload, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        if time.monotonic() >= deadline:  # headers that were cut off read as if they had ended
            response.close()
            raise TimeoutError
    except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
        connection.close()
        time_left(deadline, url)
        raise look_error(url, error) from error
    except (KeyboardInterrupt, LookError):
        connection.close()
        raise
    finally:
        late.cancel()
    if 300 <= response.status < 400:  # noqa: PLR2004 (the 3xx class)
        response.close()
        connection.close()
        raise LookError(f"{url} redirects to {response.getheader('Location')!r}, which is not followed")
    return connection, response


def _shut(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        shut(connection.sock)


def shut(waited_on: socket.socket) -> None:
    """Wake whoever waits for the answer; closing would not."""
    with contextlib.suppress(OSError):
        waited_on.shutdown(socket.SHUT_RDWR)


def _chunks(
    connection: http.client.HTTPConnection,
    response: http.client.HTTPResponse,
    url: str,
    deadline: float,
    silence_s: float,
) -> Iterator[bytes]:
    patience = connection.sock.gettimeout() if connection.sock is not None else None
    try:
        while True:
            left = time_left(deadline, url)
            if connection.sock is not None and patience != min(silence_s, left):  # seldom: each time is a system call
                patience = min(silence_s, left)
                connection.sock.settimeout(patience)
            chunk = response.read1(_CHUNK_BYTES)
            if not chunk:
                break
            yield chunk
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise look_error(url, error) from error
    if response.length:
        raise ExchangeError("broke_off", f"{url} broke off in the middle of its answer")


def time_left(deadline: float, url: str) -> float:
    """Seconds to the deadline; LookError once there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise ExchangeError("silent", f"{url} did not answer in time")
    return left


def look_error(url: str, error: Exception) -> LookError:
    """What an exception of the standard library means."""
    if isinstance(error, TimeoutError):
        return ExchangeError("silent", f"{url} did not answer in time")
    if isinstance(error, ssl.SSLError):
        return _tls_error(url, error)
    if isinstance(error, socket.gaierror):
        host = split_url(url)[1]
        return LookError(f"{url}: no host is called {host!r}", how_to_get="is the name right, and is there a network?")
    if isinstance(error, ConnectionRefusedError):
        return ExchangeError("refused", f"{url}: nothing listens there", Absence.NOT_FOUND)
    if isinstance(error, http.client.IncompleteRead | ConnectionError | http.client.RemoteDisconnected):
        return ExchangeError("broke_off", f"{url} broke off in the middle of its answer")
    return LookError(f"{url}: {getattr(error, 'strerror', '') or error or type(error).__name__}")


def _tls_error(url: str, error: ssl.SSLError) -> LookError:
    """What failed before the first word was said; by far most servers of models speak plain HTTP."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"{url}: its certificate is not trusted: {error.verify_message}"
        return LookError(why, how_to_get="name the authority's file in SSL_CERT_FILE")
    return LookError(f"{url}: it does not speak TLS", how_to_get=f"try http://{url.partition('://')[2]}")
