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

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    add = parser.add_argument
    add("target", nargs="?", metavar="TARGET", help="URL or process id of a running server")
    address = "default: 127.0.0.1:9877; a port alone is one of 127.0.0.1, 0 any"
    add("--listen", "--port", default="127.0.0.1:9877", metavar="[HOST:]PORT", help=address)
    add("--every", default="60s", metavar="TIME", help="between two judgements (default: 60s)")
    add("--measure-every", metavar="TIME", help="also send short prompts that often, such as 6h; off by default")
    add("--once", action="store_true", help="look once, write the metrics and end")
    add("-o", "--output", metavar="FILE", help="with --once: write to a file, whole or not at all")
    add("--format", metavar="FORMAT", help="of --once: openmetrics, or text (0.0.4; the default with -o)")
    add("--json", action="store_true", help="print the address as JSON, for programs")
    add("--api-key", metavar="KEY", help="for a server that asks for one (or UNSLOW_API_KEY)")
    add("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """Serve, or write once."""
    from unslow.app.exporter import command  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.app.exporter.request import ExporterRequest  # noqa: PLC0415
    from unslow.cli._output import Progress, write  # noqa: PLC0415

    request = ExporterRequest.from_flags(vars(args))
    if not request.once:
        command.serve(request, lambda port: write((command.as_json if args.json else command.as_words)(request, port)))
        return 0
    with Progress(quiet=args.quiet) as progress:
        text = command.once(request, progress)
    if text:
        write(text)
    return 0
