"""A real web server on loopback that serves one set of files, well or badly."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Behaviour = Callable[["Handler", bytes], None]


class Handler(BaseHTTPRequestHandler):
    """Answers as its server was told to behave."""

    protocol_version = "HTTP/1.1"
    server: "WebServer"

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.path} {self.headers.get('Range', '')}".strip())
        data = self.server.files.get(self.path.partition("?")[0])
        try:
            if data is None:
                self.answer(404, b"nothing here")
            else:
                self.server.behaviour(self, data)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # whoever asked has heard enough

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        """Status, headers and body; `content_range` becomes Content-Range, and so on."""
        self.send_response(status)
        fields = {"content_length": str(len(body)), **headers}
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.server.sent_bytes += len(body)
        self.wfile.write(body)

    def asked_range(self) -> tuple[int, int]:
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        return int(first), int(last)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is printed."""


class WebServer(ThreadingHTTPServer):
    """Remembers what it was asked for, and how much it sent."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes], behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.behaviour = files, behaviour
        self.asked: list[str] = []
        self.sent_bytes = 0

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever hangs up is no error."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def with_ranges(handler: Handler, data: bytes) -> None:
    """As a web server should."""
    first, last = handler.asked_range()
    part = data[first : last + 1]
    if part:
        content_range = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
        handler.answer(206, part, content_range=content_range)
    else:
        handler.answer(416, b"")


def without_ranges(handler: Handler, data: bytes) -> None:
    """The whole file, whatever was asked for."""
    handler.answer(200, data)


@contextmanager
def web_server(files: Mapping[str, bytes], behaviour: Behaviour = with_ranges) -> Iterator[WebServer]:
    """A server for as long as it is needed."""
    with WebServer(files, behaviour) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
