"""The proxy: one thread for each connection; generation is tampered with, everything else is passed on as it is."""

import http.client
import json
import random
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from lab.chaos.deeds import drawn
from lab.chaos.wire import Client, LeftError, events, head, read_request

GENERATES = "/completion"
LONGEST_HOLD_S = 120.0
_UPSTREAM_TIMEOUT_S = 60.0


@dataclass
class Seen:
    """One request that was tampered with, as the proxy tells it."""

    number: int
    at_s: float
    deed: str
    pieces: int = 0
    """Tokens that were passed on, an event each."""
    tokens: int | None = None
    """What the last event counts; None where it was not passed on."""
    ended: str = "open"
    """whole, as the deed says (done), died, down, or left: the one who asked hung up."""
    quiet_s: float = 0.0
    """How long nothing had been passed on when the one who asked hung up."""


@dataclass
class Chaos:
    """The listening side, its account, and the dice."""

    upstream_port: int
    seed: int
    pause_s: tuple[float, float] = (0.0, 0.0)
    late_s: tuple[float, float] = (1.0, 3.0)
    port: int = 0
    seen: list[Seen] = field(default_factory=list)
    closed: list[tuple[float, float]] = field(default_factory=list)
    """When nobody listened."""
    _listener: socket.socket | None = None

    def __post_init__(self) -> None:
        """The dice are thrown by one thread at a time."""
        self._dice, self._lock = random.Random(self.seed), threading.Lock()

    def open(self) -> None:
        """Listen, on the port that it had before."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(32)
        self._listener, self.port = listener, listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> float:
        """Refuse whoever comes now; when that began."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self._listener = None
        return time.monotonic()

    def refuse_for(self, seconds: float) -> None:
        """Be away for so long."""
        since = self.close()
        time.sleep(seconds)
        self.open()
        self.closed.append((since, time.monotonic()))

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError):
            method, path, headers, body = read_request(connection)
            if path == GENERATES and method == "POST":
                self._tamper(Client(connection), body)
            else:
                self._relay(connection, method, path, headers, body)

    def _relay(self, connection: socket.socket, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        upstream = http.client.HTTPConnection("127.0.0.1", self.upstream_port, timeout=_UPSTREAM_TIMEOUT_S)
        try:
            upstream.request(method, path, body or None, headers)
            response = upstream.getresponse()
            status, data = response.status, response.read()
        except (OSError, http.client.HTTPException):
            status, data = HTTPStatus.BAD_GATEWAY, b"{}"
        finally:
            upstream.close()
        connection.sendall(head(status, len(data)) + data)

    def _tamper(self, client: Client, body: bytes) -> None:
        with self._lock:
            row = Seen(len(self.seen) + 1, time.monotonic(), drawn(self._dice))
            self.seen.append(row)
            pause, late = self._dice.uniform(*self.pause_s), self._dice.uniform(*self.late_s)
            share = self._dice.random()
        try:
            client.hold(pause + (late if row.deed == "late" else 0.0))
            self._do(row, client, body, share)
        except (LeftError, OSError):
            row.ended, row.quiet_s = "left", time.monotonic() - client.last_s

    def _do(self, row: Seen, client: Client, body: bytes, share: float) -> None:
        if row.deed in _AT_ONCE:
            row.ended = "done"
            client.raw(_AT_ONCE[row.deed])
            return
        if row.deed == "silent":
            client.hold(LONGEST_HOLD_S)
            row.ended = "done"
            return
        self._generate(row, client, body, share)

    def _generate(self, row: Seen, client: Client, body: bytes, share: float) -> None:
        asked = int(json.loads(body).get("n_predict", 16))
        stop_at = 1 + int(share * max(1, asked - 2)) if row.deed in _IN_THE_MIDDLE else None
        upstream = http.client.HTTPConnection("127.0.0.1", self.upstream_port, timeout=_UPSTREAM_TIMEOUT_S)
        try:
            upstream.request("POST", GENERATES, body, {"Content-Type": "application/json"})
            response = upstream.getresponse()
        except (OSError, http.client.HTTPException):
            upstream.close()
            row.ended = "down"
            client.raw(head(HTTPStatus.BAD_GATEWAY, 0))
            return
        try:
            self._pass_on(row, client, response, stop_at)
        finally:
            response.close()
            upstream.close()

    def _pass_on(self, row: Seen, client: Client, response: http.client.HTTPResponse, stop_at: int | None) -> None:
        if response.status != HTTPStatus.OK:
            data = response.read()
            row.ended = "down"
            client.raw(head(response.status, len(data)) + data)
            return
        client.raw(_STREAM_HEAD)
        try:
            for event, said in events(response):
                if row.pieces == stop_at:
                    row.ended = "done"
                    _stop(row.deed, client, event)
                    return
                client.piece(event, drips=row.deed == "drip")
                row.pieces += not said.get("stop")
                row.tokens = said["timings"]["predicted_n"] if "timings" in said else row.tokens
        except http.client.HTTPException:
            row.ended = "died"
            return
        except ConnectionResetError:
            row.ended = "died" if not client.has_left() else "left"
            return
        if row.tokens is None:
            row.ended = "died"
            return
        row.ended = "whole"
        client.raw(b"0\r\n\r\n")


_IN_THE_MIDDLE = ("stall", "reset", "close", "half_piece", "short")
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)


_LOADING = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
_RUBBISH = bytes(range(256)) * 4
_HTML = b"<!doctype html><title>It works</title><p>data: nothing</p>\n" * 20
_AT_ONCE = {
    "hang_up": b"",
    "loading": head(503, len(_LOADING)) + _LOADING,
    "garbage_500": head(500, len(_RUBBISH), "application/octet-stream") + _RUBBISH,
    "garbage_200": head(200, len(_HTML), "text/html") + _HTML,
}


def _stop(deed: str, client: Client, event: bytes) -> None:
    """End, or do not end, an answer in its middle."""
    if deed == "stall":
        client.hold(LONGEST_HOLD_S)
    elif deed == "reset":
        time.sleep(0.3)  # for what was sent to be read
        client.reset()
    elif deed == "half_piece":
        client.raw(b"%x\r\n%s" % (len(event), event[: len(event) // 2]))
    elif deed == "short":
        client.raw(b"0\r\n\r\n")
