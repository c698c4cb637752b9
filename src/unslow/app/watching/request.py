"""What the user asked of the live screen."""

import os
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from unslow.app.discretion import Discretion
from unslow.app.read_target import as_url, check_url, is_live
from unslow.facts.errors import UserError
from unslow.look.system.http import is_loopback

SHORTEST_S, LONGEST_S = 0.2, 3600.0
"""Between two looks: faster than this the looking itself would show in the speed."""


class Request(NamedTuple):
    """What to watch, how often, and for how long."""

    target: str | None = None
    interval_s: float = 1.0
    seconds: float | None = None
    once: bool = False
    api_key: str = ""

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> "Request":
        """The request that the flags of the command line mean."""
        target, interval_s, seconds = flags["target"], flags["interval"], flags["seconds"]
        if not SHORTEST_S <= interval_s <= LONGEST_S:
            raise UserError(
                f"--interval {interval_s:g} makes no sense", f"give {SHORTEST_S:g} to {LONGEST_S:g} seconds"
            )
        if seconds is not None and not 0 < seconds < 1e9:  # noqa: PLR2004 (any sane number)
            raise UserError(f"--seconds {seconds:g} makes no sense", "give a positive number")
        if not is_live(target):
            raise UserError(f"{target} does not run", "watch takes the URL or the process id of a running server")
        key = flags["api_key"] or os.environ.get("UNSLOW_API_KEY") or ""
        return cls(target, interval_s, seconds, once=flags["once"], api_key=key)

    @property
    def url(self) -> str | None:
        """The target, where it is a URL; UserError where it is a wrong one."""
        named = as_url(self.target or "")
        return check_url(named) if named else None

    @property
    def is_elsewhere(self) -> bool:
        """Whether the server is on another machine, of which nothing else can be seen."""
        return self.url is not None and not is_loopback(self.host)

    @property
    def host(self) -> str:
        """The host of the URL; empty where none was named."""
        return urlsplit(self.url or "").hostname or ""

    @property
    def discretion(self) -> Discretion:
        """What must not be seen of it."""
        return Discretion.about(self.api_key, as_url(self.target or ""))
