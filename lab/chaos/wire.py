"""Both ends of the proxy: what was asked, the one who asked, and the events of an answer."""

import http.client
import json
import select
import socket
import struct
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

_MOST_BYTES = 1024**2


class LeftError(Exception):
    """The one who asked hung up."""


def head(status: int, length: int, kind: str = "application/json") -> bytes:
    """Status and headers of an answer in one piece."""
    words = f"HTTP/1.1 {int(status)} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\n"
    return f"{words}Content-Length: {length}\r\nConnection: close\r\n\r\n".encode()


class Client:
    """The one who asked."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self.last_s = connection, time.monotonic()

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        if self.has_left():
            raise LeftError
        self._connection.sendall(data)
        self.last_s = time.monotonic()

    def piece(self, event: bytes, *, drips: bool) -> None:
        """An event as one chunk; in two parts and late where it drips."""
        data = b"%x\r\n%s\r\n" % (len(event), event)
        if drips:
            self.raw(data[: len(data) // 2])
            time.sleep(0.05)
            data = data[len(data) // 2 :]
        self.raw(data)

    def hold(self, seconds: float) -> None:
        """Say nothing for so long; LeftError once nobody listens."""
        if select.select([self._connection], [], [], seconds)[0] and self.has_left():
            raise LeftError

    def has_left(self) -> bool:
        """Whether the other side has closed."""
        try:
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def reset(self) -> None:
        """Close so that the other side is told at once that all is lost."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def read_request(connection: socket.socket) -> tuple[str, str, dict[str, str], bytes]:
    """Method, path, headers and body of the one request of a connection."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _MOST_BYTES:
        part = connection.recv(65536)
        if not part:
            raise ValueError("no request came")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(next((value for name, value in headers.items() if name.lower() == "content-length"), "0"))
    while len(body) < min(length, _MOST_BYTES) and (part := connection.recv(65536)):
        body += part
    method, path, _ = first.split(" ", 2)
    kept = {name: value for name, value in headers.items() if name.lower() in ("content-type", "authorization")}
    return method, path, kept, body


def events(response: http.client.HTTPResponse) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The events of a stream, as bytes and as what they say."""
    rest = b""
    while data := response.read1(65536):
        *whole, rest = (rest + data).split(b"\n\n")
        for event in whole:
            said = json.loads(event.partition(b"data: ")[2] or b"{}")
            yield event + b"\n\n", said
