"""What the user asked of a diagnosis."""

import os
from pathlib import Path
from typing import NamedTuple

from unslow.app.course import QUICK, THOROUGH, USUAL, Limits, limits_of
from unslow.app.discretion import Discretion
from unslow.app.manners import Manners
from unslow.app.read_target import as_url
from unslow.commands._looking import Keeping, Looking
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
    def of(cls, asked: Looking) -> "Request":
        """The request that was asked for."""
        key = asked.api_key or os.environ.get("UNSLOW_API_KEY")
        return cls(
            target=asked.target if isinstance(asked.target, str) else None,
            manners=Manners(passive=asked.passive, evict=asked.evict, api_key=key),
            goal=asked.goal,
            context=asked.context,
            log=str(Path(asked.log).resolve()) if asked.log else None,
            shape=asked.model,
            save=asked.save if isinstance(asked, Keeping) else None,
            limits=_limits(asked),
            record=asked.record if isinstance(asked, Keeping) else None,
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


def _limits(asked: Looking) -> Limits:
    seconds = asked.seconds
    if seconds is None:
        return QUICK if asked.quick else THOROUGH if asked.thorough else USUAL
    return limits_of(seconds)
