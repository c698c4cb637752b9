"""How hostile servers send: too much, too slowly, to somewhere else, or not to the end."""

import itertools
import json
from typing import Protocol

CHUNK = 65536
HUGE_BYTES = 10 * 1024**3
LEVELS = 100_000


class Wire(Protocol):
    """What a mode of sending may do to the one who asked."""

    key: str
    """What was sent as an API key."""

    def start(self, status: int, headers: dict[str, str], length: int | None) -> None:
        """Status and headers; without a length the answer comes in chunks."""
        ...

    def send(self, data: bytes) -> None:
        """A part of the answer."""
        ...

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass; raises ConnectionError once the server is to stop."""
        ...

    def cut(self) -> None:
        """Hang up in the middle."""
        ...


def endless(wire: Wire, _data: bytes) -> None:
    """Well-formed beginnings without an end, as a stream and as a list alike."""
    wire.start(200, {"Content-Type": "text/event-stream"}, None)
    wire.send(b'{"object":"list","data":[')
    line = b'{"id":"x","choices":[{"index":0,"delta":{"content":"more "},"text":"more "}]}'
    part = b"".join(b"data: " + line + b"\n\n" for _ in range(CHUNK // len(line)))
    for _ in itertools.count():
        wire.send(part)


def huge(wire: Wire, data: bytes) -> None:
    """The right answer after ten gigabytes of blanks, which JSON allows."""
    wire.start(200, {"Content-Type": "application/json"}, HUGE_BYTES + len(data))
    for _ in range(HUGE_BYTES // CHUNK):
        wire.send(b" " * CHUNK)
    wire.send(data)


def nested(wire: Wire, _data: bytes) -> None:
    """Lists within lists, deeper than any reader goes."""
    body = b'{"data":' + b"[" * LEVELS + b"]" * LEVELS + b"}"
    wire.start(200, {"Content-Type": "application/json"}, len(body))
    wire.send(body)


def slow_headers(wire: Wire, _data: bytes) -> None:
    """A header that grows by a letter now and then."""
    wire.raw(b"HTTP/1.1 200 OK\r\nX-Never: ")
    for _ in itertools.count():
        wire.raw(b"a")
        wire.wait(0.02)


def many_headers(wire: Wire, _data: bytes) -> None:
    """More headers than an answer has."""
    wire.raw(b"HTTP/1.1 200 OK\r\n")
    for number in range(2000):
        wire.raw(b"X-%d: %s\r\n" % (number, b"a" * 200))
    wire.raw(b"\r\n")


def redirect(wire: Wire, _data: bytes) -> None:
    """Elsewhere, with the key: an address that documentation may use and nobody has."""
    wire.start(302, {"Location": f"http://192.0.2.1/?key={wire.key}"}, 0)


def cut(wire: Wire, data: bytes) -> None:
    """Half of the answer."""
    wire.start(200, {"Content-Type": "application/json"}, len(data) + 1000)
    wire.send(data[: len(data) // 2])
    wire.cut()


def cut_at_once(wire: Wire, _data: bytes) -> None:
    """Nothing."""
    wire.cut()


def refused(wire: Wire, _data: bytes) -> None:
    """An error that repeats the key."""
    body = json.dumps({"error": {"message": f"invalid key {wire.key}", "code": 500}}).encode()
    wire.start(500, {"Content-Type": "application/json"}, len(body))
    wire.send(body)


def rubbish(wire: Wire, _data: bytes) -> None:
    """Something else than HTTP."""
    wire.raw(b"\x00\xff\x16\x03\x01 no HTTP at all\r\n\r\n")
    wire.cut()
