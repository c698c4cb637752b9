"""What the user asked of a diagnosis."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from unslow.app.course import LONGEST_S, QUICK, SHORTEST_S, THOROUGH, USUAL, Limits, limits_of
from unslow.app.discretion import Discretion
from unslow.app.manners import Manners
from unslow.app.read_target import as_url
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Wish
from unslow.facts.values import NOT_LOOKED, reported


class Request(NamedTuple):
    """What the user asked for."""

    target: str | None = None
    manners: Manners = Manners()
    goal: float | None = None
    context: int | None = None
    log: str | None = None
    shape: str | None = None
    save: str | None = None
    limits: Limits = USUAL
    record: str | None = None

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> "Request":
        """The request that the flags of the command line mean."""
        for name in ("goal", "context"):
            if flags[name] is not None and not 0 < flags[name] < 1e9:  # noqa: PLR2004 (any sane number)
                raise UserError(f"--{name} {flags[name]:g} makes no sense", "give a positive number")
        key = flags["api_key"] or os.environ.get("UNSLOW_API_KEY")
        return cls(
            target=flags["target"],
            manners=Manners(passive=flags["passive"], evict=flags["evict"], api_key=key),
            goal=flags["goal"],
            context=flags["context"],
            log=str(Path(flags["log"]).resolve()) if flags["log"] else None,
            shape=flags["model"],
            save=flags["save"],
            limits=_limits(flags),
            record=flags["record"],
        )

    @property
    def wish(self) -> Wish:
        """What the user wants, as facts."""
        return Wish(
            context_tokens=NOT_LOOKED if self.context is None else reported(self.context, "--context"),
            tokens_per_s=NOT_LOOKED if self.goal is None else reported(self.goal, "--goal"),
        )

    @property
    def discretion(self) -> Discretion:
        """What must not be seen of it."""
        return Discretion.about(self.manners.api_key, as_url(self.target or ""))


def _limits(flags: dict[str, Any]) -> Limits:
    seconds = flags["seconds"]
    if seconds is None:
        return QUICK if flags["quick"] else THOROUGH if flags["thorough"] else USUAL
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise UserError(
            f"--seconds {seconds:g} makes no sense", f"give {SHORTEST_S:.0f} to {LONGEST_S:.0f}; the default is 60"
        )
    return limits_of(seconds)
