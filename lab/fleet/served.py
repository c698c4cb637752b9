"""Replayed exporters: one server on loopback, a path for each target, every answer computed for the moment of it."""

import contextlib
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lab.fleet.instance import Target
from lab.fleet.lines import exposed


class Served(ThreadingHTTPServer):
    """The targets by their paths; a list that a test may change while it is scraped."""

    daemon_threads = True
    block_on_close = True

    def __init__(self, targets: list[Target]) -> None:
        self.targets = {f"/{place}/metrics": target for place, target in enumerate(targets)}
        self.began = time.time()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.server_address[1]}"

    def replace(self, targets: list[Target]) -> None:
        """Others of the same number, in the same order."""
        self.targets = {f"/{place}/metrics": target for place, target in enumerate(targets)}


class _Handler(BaseHTTPRequestHandler):
    server: Served
    protocol_version = "HTTP/1.1"
    timeout = 5.0

    def do_GET(self) -> None:
        """The series at this moment."""
        target = self.server.targets.get(self.path)
        if target is None or target.down:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, b"")
        else:
            text = exposed(target.lines, time.time() - self.server.began)
            self._send(HTTPStatus.OK, text.encode())

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        with contextlib.suppress(OSError):  # a scraper that left
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name there)
        """Nothing: tests read no access log."""


@contextlib.contextmanager
def served(targets: list[Target]) -> Iterator[Served]:
    """The server for as long as it is needed."""
    with Served(targets) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
