"""Asks a person before something is changed."""

import sys
from urllib.parse import urlsplit

from unslow.app.read_target import as_url, check_url
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem


def agreed(question: str, *, yes: bool) -> bool:
    """Whether it may be done; UserError where nobody can be asked."""
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise UserError("there is no terminal to ask on, so nothing was changed", "look at the change, then add --yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def system_for(target: str | None, hosts: tuple[str, ...] = ()) -> LiveSystem:
    """This machine, and the host that the user names."""
    url = as_url(target) if target else None
    named = urlsplit(check_url(url)).hostname if url else None
    return LiveSystem((*hosts, *((named,) if named else ())))
