"""Serve this machine's diagnosis as metrics for Prometheus: verdict, speed against expected, findings, budget.

It only looks, as `unslow watch` does: no prompt is sent, nothing is loaded. A thread judges what it saw every minute;
a scrape is answered at once with what is known, and with how old that is. TARGET is the URL or the process id of a
server; without one, all that run here, up to 16.

Only this machine is answered, unless --listen says otherwise. Whoever can reach the port then sees which servers and
models run here, how fast they are and what slows them; no paths, user names, keys or prompts.

With --measure-every it also sends prompts, as `unslow --quick` does, for about 10 seconds to each server that is idle
then; a busy one, or one that would lose the cache of a conversation, is left alone.

examples:
  unslow exporter                                        metrics at http://127.0.0.1:9877/metrics
  unslow exporter http://127.0.0.1:8000 --listen 0.0.0.0:9877   in a pod, beside the server
  unslow exporter --measure-every 6h                     also where the servers tell little by themselves
  unslow exporter --once                                 the metrics of this moment
  unslow exporter --once -o /var/lib/prometheus/node-exporter/unslow.prom   for the node exporter

exit status: 0 served or written, 2 could not run
"""

from typing import Annotated

from unslow.commands._request import Option, Request


class ExporterRequest(Request, frozen=True, kw_only=True):
    """What to watch, how often to judge it, whether to measure, and where the metrics go."""

    target: Annotated[
        str | None, Option("URL or process id of a running server", metavar="TARGET", positional=True)
    ] = None
    listen: Annotated[
        str, Option("default: 127.0.0.1:9877; a port alone is one of 127.0.0.1, 0 any", "--port", metavar="[HOST:]PORT")
    ] = "127.0.0.1:9877"
    every: Annotated[str, Option("between two judgements (default: 60s)", metavar="TIME")] = "60s"
    measure_every: Annotated[
        str | None, Option("also send short prompts that often, such as 6h; off by default", metavar="TIME")
    ] = None
    once: Annotated[bool, Option("look once, write the metrics and end")] = False
    output: Annotated[str | None, Option("with --once: write to a file, whole or not at all", "-o", metavar="FILE")] = (
        None
    )
    format: Annotated[
        str | None, Option("of --once: openmetrics, or text (0.0.4; the default with -o)", metavar="FORMAT")
    ] = None
    json: Annotated[bool, Option("print the address as JSON, for programs")] = False
    api_key: Annotated[str | None, Option("for a server that asks for one (or UNSLOW_API_KEY)", metavar="KEY")] = None
    quiet: Annotated[bool, Option("don't say what is being done", "-q")] = False


def run(request: ExporterRequest) -> int:
    """Serve, or write once."""
    from unslow.commands._output import ProgressBar, write
    from unslow.fleet import exporter
    from unslow.fleet.settings import ExporterSettings

    wanted = ExporterSettings.of(request)
    if not request.once:
        words = exporter.as_json if request.json else exporter.as_words
        exporter.serve(wanted, lambda port: write(words(wanted, port)))
        return 0
    with ProgressBar(quiet=request.quiet) as progress:
        text = exporter.once(wanted, progress)
    if text:
        write(text)
    return 0
