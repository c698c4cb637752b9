"""Show speed, the current limit and the devices on a live screen.

It only observes: it sends no prompt and loads nothing. It reads what the server reports (/slots, /metrics), its log,
the drivers and the kernel. TARGET is the URL or the process id of a server; without one, all that run here: the arrow
keys choose. Without a terminal, it writes one line per interval.

keys: q quit, p pause, ? help, arrows choose a server

examples:
  unslow watch
  unslow watch 127.0.0.1:8080
  unslow watch --json --seconds 60 > minute.jsonl
  unslow watch --once            everything at this moment, as text
  unslow watch --plain           lines in words, also for screen readers

exit status: 0 watched, 2 could not run, 3 no server found
"""

from typing import Annotated

from unslow.commands._request import Option, Request


class WatchRequest(Request, frozen=True, kw_only=True):
    """What to watch, how often, for how long, and how it looks."""

    target: Annotated[
        str | None, Option("URL or process id of a running server", metavar="TARGET", positional=True)
    ] = None
    interval: Annotated[float, Option("seconds between samples (default: 1)", metavar="S", least=0.2, most=3600)] = 1.0
    """Faster than the least, the looking itself would show in the speed."""
    seconds: Annotated[float | None, Option("stop after this many seconds", metavar="N", least=1e-3, most=1e9)] = None
    once: Annotated[bool, Option("print one sample as text or JSON, and exit")] = False
    json: Annotated[bool, Option("one line of JSON per interval")] = False
    plain: Annotated[bool, Option("lines of text instead of a screen")] = False
    ascii: Annotated[bool, Option("draw with ASCII characters")] = False
    no_color: Annotated[bool, Option("no colors (NO_COLOR does the same)")] = False
    api_key: Annotated[str | None, Option("API key for the server (or UNSLOW_API_KEY)", metavar="KEY")] = None


def run(request: WatchRequest) -> int:
    """Watch."""
    from unslow.live.command import watch

    return watch(request)
