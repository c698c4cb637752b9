"""What `unslow serve` does with its flags: checks them, serves, and says where."""

import json
import os
from collections.abc import Callable

from unslow import __version__
from unslow.app.read_target import is_live
from unslow.app.request import Request
from unslow.commands.serve import ServeRequest
from unslow.facts.errors import UserError
from unslow.web.opening import open_browser, tunnel_command, way_to_open
from unslow.web.own import Own, Ticket
from unslow.web.server import serve
from unslow.web.wanted import Wanted


def served(asked: ServeRequest, say: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C; `say` is told where it is."""

    def announce(own: Own, ticket: Ticket) -> None:
        say(as_json(own) if asked.json else as_words(own))
        if not (asked.no_open or asked.json) and way_to_open(os.environ) == "browser":
            open_browser(ticket.url(own))

    serve(wanted_of(asked), asked.port, announce)


def wanted_of(asked: ServeRequest) -> Wanted:
    """What the flags mean; files are read now, so that a wrong one is told before anything is served."""
    if asked.measure and (asked.passive or not is_live(asked.target)):
        hint = "leave out --passive, or the stored TARGET"
        raise UserError("--measure needs something that runs and may be asked", hint)
    wanted = Wanted(Request.of(asked), measure=asked.measure)
    if asked.bench:
        from unslow.app.bench.history import read_benches  # noqa: PLC0415 (only where there are some)

        wanted = wanted._replace(benches=tuple(one for path in asked.bench for one in read_benches(path)))
    if asked.verify:
        from unslow.app.verify.reading import read_verified  # noqa: PLC0415

        wanted = wanted._replace(verified=read_verified(asked.verify))
    return wanted


def as_json(own: Own) -> str:
    """The address for a program, on one line."""
    shown = {"schema": "unslow.serve/1", "unslow_version": __version__, "pid": os.getpid()}
    return json.dumps({**shown, "url": own.url, "base": own.base, "port": own.port, "token": own.token})


def as_words(own: Own) -> str:
    """The address for a person, and how to get there over SSH."""
    lines = [f"the page is at  {own.url}"]
    if way_to_open(os.environ) == "tunnel":
        lines += [
            "you are here over SSH; to see it where you sit, run there:",
            f"  {tunnel_command(own.port, os.environ)}",
            "and open the same address.",
        ]
    return "\n".join([*lines, "it is for you alone: whoever has the address can see it. Ctrl-C ends it."])
