"""What `unslow exporter` does: serves this machine's diagnosis as metrics until it is ended, or writes them once."""

import errno
import json
import mmap
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Timer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from unslow import __version__
from unslow.commands._output import Progress
from unslow.commands.diagnose.discretion import Discretion
from unslow.commands.diagnose.target import write_whole
from unslow.facts.errors import UserError
from unslow.fleet.openmetrics import TYPES, Dialect, LookState, OwnCost, exposition
from unslow.fleet.self_diagnosis import Looker
from unslow.fleet.settings import Address, ExporterSettings
from unslow.live.watcher import watched_host
from unslow.look.system.http import is_local_url
from unslow.look.system.live import LiveSystem

WATCH_S = 8.0  # For one look alone: some answers, and what they take
_POLL_S = 0.5
MOST_CONNECTIONS = 32  # At once: a Prometheus has one, a pair of them two, a person looking on a third
TIMEOUT_S = 5.0
"""For a request to come whole, which takes a client milliseconds, and for the next one on the same connection."""
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>unslow exporter</title>
<h1>unslow exporter</h1><p><a href="/metrics">/metrics</a>, <a href="/healthz">/healthz</a>,
<a href="/readyz">/readyz</a></p></html>
"""


class Answers(NamedTuple):
    """What is answered: the metrics in a dialect, whether looking goes on, whether there was a look."""

    metrics: Callable[[Dialect], str]
    is_well: Callable[[], bool]
    is_ready: Callable[[], bool]


def serve(request: ExporterSettings, ready: Callable[[int], None]) -> None:
    """Serve until Ctrl-C or a polite kill; `ready` is told the port as soon as anybody can ask."""
    looker, started_at_s = looker_of(request), time.time()  # a wrong URL is told before anything listens

    def metrics(dialect: Dialect) -> str:
        report, state = looker.standing
        return exposition(report, state, dialect, own_cost(started_at_s), __version__)

    answers = Answers(metrics, looker.is_well, lambda: looker.standing.state.at_s is not None)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExporterServer(request.listen, answers) as server:
            looker.start()
            ready(server.server_port)
            server.serve_forever(_POLL_S)
    except KeyboardInterrupt:
        pass  # how a server usually ends
    finally:
        looker.stop()
        signal.signal(signal.SIGTERM, before)


def looker_of(request: ExporterSettings) -> Looker:
    """What looks for this request, at this machine."""
    host = watched_host(request.watch)
    return Looker(LiveSystem([host] if host else []), request)


def own_cost(started_at_s: float) -> OwnCost:
    """What this process has used."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            resident = int(file.read().split()[1]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):  # only Linux tells it there
        resident = None
    return OwnCost(time.process_time(), resident, started_at_s)


def write_once(request: ExporterSettings, progress: Progress) -> str:
    """The metrics of one look, written where the request says; UserError where it failed, which the file says too."""
    looker = looker_of(request)
    try:
        with Discretion.about(request.watch.api_key, request.watch.target).errors():
            report, state = looker.look_once(WATCH_S, progress.step)
            text = exposition(report, state, request.dialect, version=__version__)
    except UserError:
        if request.output and request.output != "-":
            failed = exposition(None, LookState(failures=1), request.dialect, version=__version__)
            write_whole(failed.encode(), request.output)
        raise
    finally:
        looker.stop()
    if request.output and request.output != "-":
        write_whole(text.encode(), request.output)
        progress.say(f"wrote {request.output}")
        return ""
    return text.rstrip("\n")


def as_words(request: ExporterSettings, port: int) -> str:
    """Where the metrics are, what they cost whom, and who can see them."""
    manner = "Read-only: no prompts are sent."
    if request.measure_every_s is not None:
        seconds = request.measure_every_s
        span = f"{seconds / 3600:g} hours" if seconds % 3600 == 0 else f"{seconds / 60:g} minutes"
        manner = f"Sends short prompts to idle servers every {span}."
    lines = [f"Metrics: {request.listen.url(port)}/metrics", manner]
    if not request.listen.is_loopback:
        lines.append(
            "Anyone who can reach this port sees which servers and models run here, how fast they are and what slows "
            "them down."
        )
    return "\n".join([*lines, "Ctrl-C stops it."])


def as_json(request: ExporterSettings, port: int) -> str:
    """The same for a program, on one line."""
    shown = {"schema": "unslow.exporter/1", "unslow_version": __version__, "pid": os.getpid()}
    return json.dumps({**shown, "url": f"{request.listen.url(port)}/metrics", "port": port})


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    server: "ExporterServer"

    def handle_one_request(self) -> None:
        """As the library does, whose time is one for each byte: whoever drips would keep a place for ever."""
        self.server.note(self.connection, answering=False)
        late = Timer(self.timeout, hang_up, (self.connection,))
        late.daemon = True
        late.start()
        try:
            super().handle_one_request()
        finally:
            late.cancel()

    def do_GET(self) -> None:
        """Answer a question; a page in a browser that only pretends to be of this machine gets none."""
        self.server.note(self.connection, answering=True)
        answers, path = self.server.answers, urlsplit(self.path).path
        status, kind = 200, "text/plain; charset=utf-8"
        if self.server.is_private and not is_local_url(f"//{self.headers.get('Host', '')}"):
            status, text = 403, "only local requests are answered\n"
        elif path == "/metrics":
            dialect = dialect_for(self.headers.get("Accept", ""))
            kind, text = TYPES[dialect], answers.metrics(dialect)
        elif path == "/healthz":
            status, text = (200, "ok\n") if answers.is_well() else (503, "the diagnosis loop hangs or has ended\n")
        elif path == "/readyz":
            status, text = (200, "ready\n") if answers.is_ready() else (503, "no diagnosis has succeeded yet\n")
        elif path == "/":
            kind, text = "text/html; charset=utf-8", _PAGE
        else:
            status, text = 404, "not found: try /metrics, /healthz or /readyz\n"
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 (the name that the library looks for)

    def version_string(self) -> str:
        """The name alone: no version of Python."""
        return "unslow-exporter"

    def log_message(self, *_words: Any) -> None:
        """A scrape every few seconds is no news."""


class ExporterServer(ThreadingHTTPServer):
    """Listens; when all places are taken, whoever has been idle for the longest time makes room for a newcomer."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS  # the library's five would make others wait for a second and more

    def __init__(self, address: Address, answers: Answers) -> None:
        self.answers, self.is_private = answers, address.is_loopback
        self._lock, self._places = Lock(), dict[Any, tuple[bool, float]]()  # whether it is being answered, since when
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            super().__init__((address.host, address.port), Handler)
        except OSError as error:
            why = "address already in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
            raise UserError(f"{address.host}:{address.port}: {why}", "choose another address with --listen") from error

    def server_bind(self) -> None:
        """Without asking a name server for the name of this machine, as the library would."""
        if sys.platform != "win32":  # where it would share the port with whoever else listens on it
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own; those who hold connections and ask nothing can't keep others out."""
        with self._lock:
            if len(self._places) >= MOST_CONNECTIONS:
                longest = min(self._places, key=self._places.__getitem__)  # idle ones first
                del self._places[longest]
                hang_up(longest)
            self._places[request] = False, time.monotonic()
        super().process_request(request, client_address)

    def note(self, connection: Any, *, answering: bool) -> None:
        """A connection is being answered from now on, or waits for a request."""
        with self._lock:
            if connection in self._places:
                self._places[connection] = answering, time.monotonic()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As the library does, and then the place is free again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._places.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever hangs up in the middle is no news; anything else is a bug, and told."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def hang_up(connection: Any) -> None:
    """End a connection from another thread: whoever reads from it wakes up."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


_LONGEST = 4096
_VERSIONS = ("", "1.0.0", "0.0.1")
"""Of OpenMetrics, that a reader may name: the drafts before 1.0 read the same for gauges and counters."""


def dialect_for(accept: str) -> Dialect:
    """OpenMetrics where it is wanted at least as much as the older text, which is for everybody else."""
    wanted = {"openmetrics": 0.0, "text": 0.0}
    for item in accept[:_LONGEST].split(","):
        kind, *rest = [word.strip() for word in item.split(";")]
        told = dict(word.partition("=")[::2] for word in rest)
        try:
            weight = float(told.get("q", "1"))
        except ValueError:
            weight = 0.0
        is_open = kind == "application/openmetrics-text" and told.get("version", "") in _VERSIONS
        if (is_open or kind in ("text/plain", "text/*")) and 0 <= weight <= 1:
            dialect = "openmetrics" if is_open else "text"
            wanted[dialect] = max(wanted[dialect], weight)
    return "openmetrics" if wanted["openmetrics"] and wanted["openmetrics"] >= wanted["text"] else "text"
