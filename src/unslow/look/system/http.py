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
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from unslow.facts.values import Absence
from unslow.look.system.door import HTTP_LIMIT_BYTES, Answer, Line, LookError

STREAM_LIMIT_BYTES, LINE_LIMIT_BYTES = 64 * 1024**2, 1024**2
SILENCE_S = 45.0
"""A server that says nothing for so long is not going to: slow ones take seconds for a token, not minutes."""
_CHUNK_BYTES = 65536


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
        raise LookError(f"{host} was not named by the user, so nothing was sent to it", Absence.NOT_LOOKED)


def request(method: str, url: str, body: Any, headers: Mapping[str, str], timeout_s: float) -> Answer:
    """One exchange."""
    deadline = time.monotonic() + timeout_s
    connection, response = _exchange(method, url, body, headers, deadline)
    try:
        data = bytearray()
        for chunk in _chunks(connection, response, url, deadline):
            data += chunk
            if len(data) > HTTP_LIMIT_BYTES:
                raise LookError(f"{url} answered more than {HTTP_LIMIT_BYTES >> 20} MiB")
        return Answer(response.status, bytes(data), response.getheader("Content-Type") or "")
    finally:
        response.close()  # which has the socket where the server closes it after the answer
        connection.close()


def stream(url: str, body: Any, headers: Mapping[str, str], timeout_s: float) -> Iterator[Line]:
    """POST, and the answer line by line."""
    start = time.monotonic()
    deadline = start + timeout_s
    connection, response = _exchange("POST", url, body, headers, deadline)
    try:
        if response.status != http.client.OK:
            text = next(_chunks(connection, response, url, deadline), b"")[:200].decode("utf-8", "replace")
            raise LookError(f"{url} answered {response.status}: {text.strip()}")
        rest, size = b"", 0
        for chunk in _chunks(connection, response, url, deadline):
            *lines, rest = (rest + chunk).split(b"\n")
            size += len(chunk)
            if size > STREAM_LIMIT_BYTES or len(rest) > LINE_LIMIT_BYTES:
                raise LookError(f"{url} streamed more than an answer can be: {size >> 10} KiB")
            arrived = time.monotonic() - start
            yield from (Line(arrived, line.decode("utf-8", "replace").rstrip("\r")) for line in lines)
        if rest:
            yield Line(time.monotonic() - start, rest.decode("utf-8", "replace"))
    finally:
        response.close()
        connection.close()


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
    method: str, url: str, body: Any, headers: Mapping[str, str], deadline: float
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    scheme, host, port, path = split_url(url)
    kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(host, port, timeout=time_left(deadline, url))
    except (http.client.HTTPException, ValueError) as error:
        raise LookError(f"{url!r} is not a URL that can be asked: {error}") from error
    payload = None if body is None else json.dumps(body).encode()
    late = threading.Timer(time_left(deadline, url), _shut, (connection,))  # a timeout of its own for each byte is none
    late.daemon = True
    late.start()
    try:
        connection.request(method, path or "/", payload, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        if time.monotonic() >= deadline:  # headers that were cut off read as if they had ended
            response.close()
            raise TimeoutError
    except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
        connection.close()
        time_left(deadline, url)
        raise look_error(url, error) from error
    finally:
        late.cancel()
    if 300 <= response.status < 400:  # noqa: PLR2004 (the 3xx class)
        response.close()
        connection.close()
        raise LookError(f"{url} redirects to {response.getheader('Location')!r}, which is not followed")
    return connection, response


def _shut(connection: http.client.HTTPConnection) -> None:
    """Wake whoever waits for the answer; closing would not."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _chunks(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse, url: str, deadline: float
) -> Iterator[bytes]:
    try:
        while True:
            if connection.sock is not None:
                connection.sock.settimeout(min(SILENCE_S, time_left(deadline, url)))
            chunk = response.read1(_CHUNK_BYTES)
            if not chunk:
                break
            yield chunk
            time_left(deadline, url)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise look_error(url, error) from error
    if response.length:
        raise LookError(f"{url} broke off in the middle of its answer")


def time_left(deadline: float, url: str) -> float:
    """Seconds to the deadline; LookError once there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise LookError(f"{url} did not answer in time")
    return left


def look_error(url: str, error: Exception) -> LookError:
    """What an exception of the standard library means."""
    if isinstance(error, TimeoutError):
        return LookError(f"{url} did not answer in time")
    if isinstance(error, ssl.SSLError):
        return _tls_error(url, error)
    if isinstance(error, ConnectionRefusedError):
        return LookError(f"{url}: nothing listens there", Absence.NOT_FOUND)
    if isinstance(error, http.client.IncompleteRead | ConnectionResetError | http.client.RemoteDisconnected):
        return LookError(f"{url} broke off in the middle of its answer")
    return LookError(f"{url}: {str(error) or type(error).__name__}")


def _tls_error(url: str, error: ssl.SSLError) -> LookError:
    """What failed before the first word was said; by far most servers of models speak plain HTTP."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"{url}: its certificate is not trusted: {error.verify_message}"
        return LookError(why, how_to_get="name the authority's file in SSL_CERT_FILE")
    return LookError(f"{url}: it does not speak TLS", how_to_get=f"try http://{url.partition('://')[2]}")
