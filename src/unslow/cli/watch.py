"""A live screen: speed against the ceiling, what binds, devices, memory, phases, the current suspicion.

It only looks: no prompt is sent, nothing is loaded. It reads what the server tells of itself (/slots, /metrics), its
log, the drivers and the kernel. TARGET is the URL or the process id of a server; without one, all that run here: the
arrow keys choose. Where there is no terminal, it writes a line at every interval.

keys: q quit, p pause, ? help, arrows choose a server

examples:
  unslow watch
  unslow watch 127.0.0.1:8080
  unslow watch --json --seconds 60 > minute.jsonl
  unslow watch --once            everything of this moment, as text
  unslow watch --plain           lines in words, also for screen readers

exit status: 0 watched, 2 could not run, 3 nothing was found to watch
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    add = parser.add_argument
    add("target", nargs="?", metavar="TARGET", help="URL or process id of a running server")
    add("--interval", type=float, default=1.0, metavar="S", help="seconds between two looks (default: 1)")
    add("--seconds", type=float, metavar="N", help="end after so many seconds")
    add("--once", action="store_true", help="show this moment once, as text or JSON, and end")
    add("--json", action="store_true", help="one line of JSON at every interval")
    add("--plain", action="store_true", help="lines in words instead of a screen")
    add("--ascii", action="store_true", help="draw with plain letters")
    add("--no-color", action="store_true", help="no colours (NO_COLOR does the same)")
    add("--api-key", metavar="KEY", help="for a server that asks for one (or UNSLOW_API_KEY)")


def run(args: argparse.Namespace) -> int:
    """Watch."""
    from unslow.app.watching.request import Request  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import color, write  # noqa: PLC0415
    from unslow.tui.command import Looks, watch  # noqa: PLC0415

    looks = Looks(json=args.json, plain=args.plain, color=color() and not args.no_color, ascii=args.ascii)
    return watch(Request.from_flags(vars(args)), looks, write)
