"""Show the diagnosis as a page in the browser, on this machine only; measure and watch it live.

The page is there at once with what can be seen without asking anybody; it measures when you press the button there,
or with --measure. TARGET is a URL, a process id, a snapshot file or a recording folder; without one, this machine.
Only programs on this machine that know the token in the address are answered, and the page can do no more than
measure: it changes nothing. Programs find a JSON API at the same address, described at /api/v1/openapi.json.
Ctrl-C ends it.

examples:
  unslow serve
  unslow serve http://127.0.0.1:8080 --measure
  unslow serve seen.json --no-open
  unslow serve tests/machines/h200_llama_server_healthy_full_gpu --bench bench.json
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._looking import add_looking_arguments  # noqa: PLC0415

    add = parser.add_argument
    add_looking_arguments(parser, keeps=False)
    add("--port", type=int, default=0, metavar="N", help="port on 127.0.0.1 (default: any that is free)")
    add("--no-open", action="store_true", help="print the address, don't open the browser")
    add("--measure", action="store_true", help="measure at once, as `unslow diagnose` does")
    add("--bench", action="append", default=[], metavar="FILE", help="with a benchmark's curves; may be repeated")
    add("--verify", metavar="FILE", help="with before and after: what `unslow verify --json` wrote")
    add("--json", action="store_true", help="print the address and the token as JSON, for programs")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from unslow.cli._output import write  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.web.command import served  # noqa: PLC0415

    served(vars(args), write)
    return 0
