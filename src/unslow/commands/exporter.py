"""Serve this machine's diagnosis as Prometheus metrics.

It only observes, like `unslow watch`: it sends no prompt and loads nothing. A thread updates the diagnosis every
minute; a scrape returns the latest one at once, with its age. TARGET is the URL or the process id of a server; without
one, all that run here, up to 16.

It serves only this machine, unless --listen says otherwise. Anyone who can reach the port then sees which servers and
models run here, how fast they are and what slows them; no paths, user names, keys or prompts.

With --measure-every it also sends prompts, like `unslow --quick`, for about 10 seconds to each idle server; a busy one,
or one that would lose the KV cache of a conversation, is left alone.

examples:
  unslow exporter                                        metrics at http://127.0.0.1:9877/metrics
  unslow exporter http://127.0.0.1:8000 --listen 0.0.0.0:9877   in a pod, as a sidecar
  unslow exporter --measure-every 6h                     if the servers report too little
  unslow exporter --once                                 print the metrics and exit
  unslow exporter --once -o /var/lib/prometheus/node-exporter/unslow.prom   for the node exporter

exit status: 0 served or written, 2 could not run
"""

from typing import Annotated

from unslow.commands._request import Option, Request


class ExporterRequest(Request, frozen=True, kw_only=True):
    """What to observe, how often to diagnose, whether to measure, and where the metrics go."""

    target: Annotated[
        str | None, Option("URL or process id of a running server", metavar="TARGET", positional=True)
    ] = None
    listen: Annotated[
        str,
        Option(
            "address to listen on (default: 127.0.0.1:9877; a port alone means 127.0.0.1, 0 any free port)",
            "--port",
            metavar="[HOST:]PORT",
        ),
    ] = "127.0.0.1:9877"
    every: Annotated[str, Option("time between diagnoses (default: 60s)", metavar="TIME")] = "60s"
    measure_every: Annotated[
        str | None, Option("also send short prompts at this interval, such as 6h (default: off)", metavar="TIME")
    ] = None
    once: Annotated[bool, Option("diagnose once, write the metrics and exit")] = False
    output: Annotated[str | None, Option("with --once: write to a file, atomically", "-o", metavar="FILE")] = None
    format: Annotated[
        str | None, Option("with --once: openmetrics, or text (0.0.4; the default with -o)", metavar="FORMAT")
    ] = None
    json: Annotated[bool, Option("print the address as JSON, for programs")] = False
    api_key: Annotated[str | None, Option("API key for the server (or UNSLOW_API_KEY)", metavar="KEY")] = None
    quiet: Annotated[bool, Option("do not print progress", "-q")] = False


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
        text = exporter.write_once(wanted, progress)
    if text:
        write(text)
    return 0
