"""Answers whoever scrapes: at once, with what is known, and never more than a few at a time."""

import errno
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Timer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from unslow.app.exporter.accept import dialect_for
from unslow.app.exporter.request import Address
from unslow.facts.errors import UserError
from unslow.look.system.http import is_loopback
from unslow.show._metric_text import Dialect
from unslow.show.openmetrics import TYPES

MOST_CONNECTIONS = 32
"""At once: a Prometheus has one, a pair of them two, a person looking on a third."""
TIMEOUT_S = 10.0
"""For a request to come whole, and for the next one on the same connection."""
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>unslow exporter</title>
<h1>unslow exporter</h1><p><a href="/metrics">/metrics</a>, <a href="/healthz">/healthz</a>,
<a href="/readyz">/readyz</a></p></html>
"""


class Answers(NamedTuple):
    """What is answered: the metrics in a dialect, whether looking goes on, whether there was a look."""

    metrics: Callable[[Dialect], str]
    is_well: Callable[[], bool]
    is_ready: Callable[[], bool]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    server: "ExporterServer"

    def handle_one_request(self) -> None:
        """As the library does, whose time is one for each byte: whoever drips would keep a place for ever."""
        late = Timer(self.timeout, self._hang_up)
        late.daemon = True
        late.start()
        try:
            super().handle_one_request()
        finally:
            late.cancel()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        """Answer a question; a page in a browser that only pretends to be of this machine gets none."""
        answers, path = self.server.answers, urlsplit(self.path).path
        if self.server.is_private and not _is_own(self.headers.get("Host", "")):
            self._send(403, "text/plain; charset=utf-8", "only programs of this machine are answered\n")
        elif path == "/metrics":
            dialect = dialect_for(self.headers.get("Accept", ""))
            self._send(200, TYPES[dialect], answers.metrics(dialect))
        elif path == "/healthz":
            self._state(answers.is_well(), "well", "looking hangs, or has ended")
        elif path == "/readyz":
            self._state(answers.is_ready(), "ready", "no look has succeeded yet")
        elif path == "/":
            self._send(200, "text/html; charset=utf-8", _PAGE)
        else:
            self._send(404, "text/plain; charset=utf-8", "there is /metrics, /healthz and /readyz\n")

    do_HEAD = do_GET  # noqa: N815 (the name that the library looks for)

    def _state(self, good: bool, yes: str, no: str) -> None:  # noqa: FBT001 (two callers)
        self._send(200 if good else 503, "text/plain; charset=utf-8", f"{yes if good else no}\n")

    def _send(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """The name alone: no version of Python."""
        return "unslow-exporter"

    def log_message(self, *_words: Any) -> None:
        """A scrape every few seconds is no news."""


class ExporterServer(ThreadingHTTPServer):
    """Listens; whoever comes when all places are taken is hung up on."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS  # the library's five would make others wait for a second and more

    def __init__(self, address: Address, answers: Answers) -> None:
        self.answers, self.is_private = answers, address.is_loopback
        self._places = BoundedSemaphore(MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            super().__init__((address.host, address.port), Handler)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "something listens there already" if taken else error.strerror or str(error)
            raise UserError(f"{address.host}:{address.port}: {why}", "choose another with --listen") from error

    def server_bind(self) -> None:
        """Without asking a name server for the name of this machine, as the library would."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, where there is a place."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As the library does, and then the place is free again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever hangs up in the middle is no news; anything else is a bug, and told."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _is_own(host: str) -> bool:
    """Whether a Host names this machine: a page of elsewhere whose name was bent to loopback names itself."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
