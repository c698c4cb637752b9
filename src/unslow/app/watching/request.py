"""What the user asked of the live screen."""

import os
from typing import NamedTuple
from urllib.parse import urlsplit

from unslow.app.discretion import Discretion
from unslow.app.read_target import as_url, check_url, is_live
from unslow.commands.watch import WatchRequest
from unslow.facts.errors import UserError
from unslow.look.system.http import is_loopback


class Request(NamedTuple):
    """What to watch, how often, and for how long."""

    target: str | None = None
    interval_s: float = 1.0
    seconds: float | None = None
    once: bool = False
    api_key: str = ""

    @classmethod
    def of(cls, asked: WatchRequest) -> "Request":
        """The request that was asked for."""
        if not is_live(asked.target):
            raise UserError(f"{asked.target} does not run", "watch takes the URL or the process id of a running server")
        key = asked.api_key or os.environ.get("UNSLOW_API_KEY") or ""
        return cls(asked.target, asked.interval, asked.seconds, once=asked.once, api_key=key)

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
