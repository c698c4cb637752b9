"""What the user asked of `unslow calibrate`."""

import os
from typing import Any, NamedTuple

from unslow.facts.errors import UserError

_MOST_THREADS = 1024


class Request(NamedTuple):
    """A running server, or none for the embedded engine."""

    target: str | None = None
    threads: int | None = None
    anyway: bool = False
    evict: bool = False
    api_key: str | None = None

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> "Request":
        """The request that the flags of the command line mean."""
        threads, target = flags["threads"], flags["target"]
        if threads is not None and not 0 < threads <= _MOST_THREADS:
            raise UserError(f"--threads {threads} makes no sense", "give the number of physical cores, or leave it out")
        if threads and target:
            raise UserError("a running server has its threads already", "leave out --threads")
        if target is not None and not ("://" in target or target.isdecimal()):
            raise UserError(f"{target!r} is no running server", "give a URL or a process id, or nothing")
        return cls(target, threads, flags["anyway"], flags["evict"], flags["api_key"] or os.getenv("UNSLOW_API_KEY"))
