"""What `unslow exporter` does: serves the metrics until it is ended, or writes them once."""

import json
import mmap
import os
import signal
import time
from collections.abc import Callable

from unslow import __version__
from unslow.app.exporter.looker import Looker
from unslow.app.exporter.request import ExporterRequest
from unslow.app.exporter.server import Answers, ExporterServer
from unslow.app.progress import Progress
from unslow.app.save import write_whole
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem
from unslow.show._metric_text import Dialect
from unslow.show.openmetrics import LookState, OwnCost, exposition

WATCH_S = 8.0
"""For one look alone: some answers, and what they take."""
_POLL_S = 0.5


def looker_of(request: ExporterRequest) -> Looker:
    """What looks for this request, at this machine."""
    host = request.watch.host
    return Looker(LiveSystem([host] if host else []), request)


def serve(request: ExporterRequest, ready: Callable[[int], None]) -> None:
    """Serve until Ctrl-C or a polite kill; `ready` is told the port as soon as anybody can ask."""
    _ = request.watch.url  # a wrong one is told before anything listens
    looker, started_at_s = looker_of(request), time.time()

    def metrics(dialect: Dialect) -> str:
        report, state = looker.standing()
        return exposition(report, state, dialect, own_cost(started_at_s), __version__)

    answers = Answers(metrics, looker.is_well, lambda: looker.standing().state.at_s is not None)
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


def own_cost(started_at_s: float) -> OwnCost:
    """What this process has used."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            resident = int(file.read().split()[1]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):  # only Linux tells it there
        resident = None
    return OwnCost(time.process_time(), resident, started_at_s)


def once(request: ExporterRequest, progress: Progress) -> str:
    """The metrics of one look, written where the request says; UserError where it failed, which the file says too."""
    looker = looker_of(request)
    try:
        with request.watch.discretion.errors():
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


def as_words(request: ExporterRequest, port: int) -> str:
    """Where the metrics are, what they cost whom, and who can see them."""
    manner = "It only looks: no prompt is sent."
    if request.measure_every_s is not None:
        manner = f"Every {_span(request.measure_every_s)} it sends short prompts to servers that are idle."
    lines = [f"metrics are at  {request.listen.url(port)}/metrics", manner]
    if not request.listen.is_loopback:
        lines.append(
            "Whoever can reach this port sees which servers and models run here, how fast they are and what slows them."
        )
    return "\n".join([*lines, "Ctrl-C ends it."])


def _span(seconds: float) -> str:
    return f"{seconds / 3600:g} hours" if seconds % 3600 == 0 else f"{seconds / 60:g} minutes"


def as_json(request: ExporterRequest, port: int) -> str:
    """The same for a program, on one line."""
    shown = {"schema": "unslow.exporter/1", "unslow_version": __version__, "pid": os.getpid()}
    return json.dumps({**shown, "url": f"{request.listen.url(port)}/metrics", "port": port})
