"""The server: one thread for each connection, on loopback only."""

import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lab.replay.answers import FOLDER, Piece, Recorded, answer_to, read_answers
from lab.replay.behaviour import Behaviour, checked
from lab.replay.generation import Pace, generates, pieces, streams, whole, work_of
from lab.replay.hostile import MODES, Mode, lines_as, sent_as
from lab.replay.models import Models, Said

_JSON, _PLAIN = "application/json", "text/plain; charset=utf-8"
_EVENTS, _JSON_LINES = "text/event-stream", "application/x-ndjson"
_DEFAULT_TOKENS_PER_S = 50.0
_MOST_SENT_BYTES = 16 * 1024**2
_ERRORS = {
    401: {"error": {"message": "Invalid or missing API key", "type": "authentication_error", "code": 401}},
    404: {"error": {"message": "Not Found", "type": "not_found_error", "code": 404}},
    503: {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}},
}


class ReplayServer(ThreadingHTTPServer):
    """Answers from a folder; remembers what it was asked for."""

    daemon_threads = True

    def __init__(self, answers: list[Recorded], behaviour: Behaviour, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.answers, self.behaviour = answers, behaviour
        self.mode: Mode | None = MODES.get(behaviour.fail)
        self.models = Models(answers)
        self.asked: list[str] = []
        self.stopping = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever hangs up is no error."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: ReplayServer
    chunked = False
    mode: Mode | None = None

    def do_GET(self) -> None:
        self._answer(None)

    def do_DELETE(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        data = self.rfile.read(min(int(length), _MOST_SENT_BYTES)) if length.isdecimal() else b""
        try:
            sent = json.loads(data) if data else None
        except ValueError:
            sent = None
        self._answer(sent)

    def _answer(self, sent: Any) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        with suppress(ConnectionError, TimeoutError):  # whoever asked has heard enough, or the server stops
            self.wait(self.server.behaviour.latency_s)
            self._reply(sent)
            return
        self.close_connection = True

    def _reply(self, sent: Any) -> None:
        behaviour, path = self.server.behaviour, self.path.partition("?")[0]
        recorded = answer_to(self.server.answers, self.command, self.path, sent)
        fails = path.startswith(behaviour.fail_at)
        mode = self.mode = self.server.mode if fails else None
        if behaviour.api_key and self.key != behaviour.api_key:
            self._whole(401, _ERRORS[401])
            return
        said = None if fails and behaviour.fail and not behaviour.done_first else self._said(path, sent)
        if mode and mode.send:
            mode.send(self, sent_as(None, recorded.body if recorded else {}, self.key))
        elif behaviour.fail in ("loading", "missing") and fails:
            status = 503 if behaviour.fail == "loading" else 404
            self._whole(status, _ERRORS[status])
        elif said:
            self._whole(said.status, said.body)
        elif self.command == "POST" and generates(path) and not self._is_recorded(recorded, path, sent):
            self._generate(path, sent)
        elif recorded is None:
            self._whole(404, _ERRORS[404])
        elif recorded.stream:
            self._stream(recorded.stream, recorded.headers.get("Content-Type", _EVENTS))
        else:
            self._whole(
                recorded.status, recorded.text if recorded.text is not None else recorded.body, recorded.headers
            )

    def _said(self, path: str, sent: Any) -> Said | None:
        return self.server.models.said(self.command, path, sent)

    def _is_recorded(self, recorded: Recorded | None, path: str, sent: Any) -> bool:
        """Whether there is an answer of the kind that is asked for, streamed or not, and no other pace is wanted."""
        if recorded is None or self.server.behaviour.tokens_per_s:
            return False
        return bool(recorded.stream) == streams(path, sent)

    def _generate(self, path: str, sent: Any) -> None:
        behaviour = self.server.behaviour
        pace = Pace(behaviour.prompt_tokens_per_s, behaviour.tokens_per_s or _DEFAULT_TOKENS_PER_S)
        work = work_of(path, sent, pace)
        if streams(path, sent):
            self._stream(pieces(work), _EVENTS if path.startswith("/v1/") else _JSON_LINES)
        else:
            self.wait(work.prefill_s + work.decode_s)
            self._whole(200, whole(work))

    def _whole(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        data = sent_as(self.mode, body, self.key)
        kind = {"Content-Type": _PLAIN if isinstance(body, str) else _JSON}
        self.start(status, {**kind, **(headers or {})}, len(data))
        self.send(data)

    def _stream(self, parts: Iterable[Piece], kind: str) -> None:
        self.start(200, {"Content-Type": kind}, None)
        due = time.monotonic()
        for part in parts:
            due += part.after_s  # by the clock, so that the time it takes to send adds up to nothing
            self.wait(due - time.monotonic())
            for line in lines_as(self.mode, iter(part.line.split("\n")), self.key):
                self.send(line + b"\n")
        self.raw(b"0\r\n\r\n")

    def start(self, status: int, headers: dict[str, str], length: int | None) -> None:
        """Status and headers; without a length the answer comes in chunks."""
        self.send_response(status)
        self.chunked = length is None
        size = {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
        for name, value in {**headers, **size}.items():
            self.send_header(name, value)
        self.end_headers()

    def send(self, data: bytes) -> None:
        """A part of the answer."""
        if self.server.stopping.is_set():
            raise ConnectionAbortedError
        if data:
            self.raw(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data)

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self.wfile.write(data)
        self.wfile.flush()

    def wait(self, seconds: float) -> None:
        """Let time pass; ConnectionError once the server is to stop."""
        if seconds > 0 and self.server.stopping.wait(seconds):
            raise ConnectionAbortedError

    def cut(self) -> None:
        """Hang up in the middle."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        raise ConnectionAbortedError

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the parent's)
        """Nothing is printed."""


def started(runtime: str, folder: Path | None, behaviour: Behaviour, port: int = 0) -> ReplayServer:
    """A server that listens and is not yet serving; ValueError where there is nothing to answer from."""
    return ReplayServer(read_answers(folder or FOLDER / runtime), checked(behaviour), port)


@contextmanager
def serve(runtime: str, folder: Path | None = None, port: int = 0, **options: Any) -> Iterator[str]:
    """A server for as long as it is needed: the URL; `options` are those of `Behaviour`."""
    with serving(started(runtime, folder, Behaviour(**options), port)) as server:
        yield server.url


@contextmanager
def serving(server: ReplayServer) -> Iterator[ReplayServer]:
    """Serve in a thread, and end whatever is still being answered."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()
