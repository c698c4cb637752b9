"""What a Prometheus has of a fleet, read once, and what must be known of how that went."""

import time
from datetime import UTC, datetime
from typing import NamedTuple

from unslow import __version__
from unslow.app.fleet.request import FleetRequest
from unslow.app.progress import Progress
from unslow.fleet.answered import Answered
from unslow.fleet.asking.prometheus import Prometheus
from unslow.fleet.member import Member
from unslow.fleet.members import read_members
from unslow.think.fleet.judged import Head
from unslow.think.fleet.report import Statement

IN_PART = ("partial", "limit")
"""Kinds of statements that say of an answer of the server that it was not whole; an engine that is down is none."""
USUAL = 32
"""Queries: for a bar that moves before anybody knows how many there are."""


class Fleet(NamedTuple):
    """The members, and how they were read."""

    members: list[Member]
    statements: tuple[Statement, ...]
    shown_url: str
    now_s: float
    queries: int

    @property
    def taken_at(self) -> str:
        """When, by the clock of the server."""
        return datetime.fromtimestamp(self.now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def head(self, window_s: float, started_s: float) -> Head:
        """What the report says of how it came about."""
        return Head(
            unslow_version=__version__,
            prometheus=self.shown_url,
            taken_at=self.taken_at,
            window_s=window_s,
            queries=self.queries,
            seconds=time.monotonic() - started_s,
            complete=not any(statement.kind in IN_PART for statement in self.statements),
            statements=self.statements,
        )


def read_fleet(request: FleetRequest, progress: Progress) -> Fleet:
    """Ask everything; UserError where nobody answers."""
    with Prometheus(request.access, progress.say) as prometheus:
        progress.step(_asking(prometheus), 0.0)
        members = read_members(_Counted(prometheus, progress), request.options)
        progress.say(f"{prometheus.asked} queries, {_instances(len(members.members))}")
        said = (*prometheus.statements(), *members.statements)
        return Fleet(
            members.members, tuple(dict.fromkeys(said)), prometheus.shown_url, prometheus.now_s, prometheus.asked
        )


def _asking(prometheus: Prometheus) -> str:
    return f"asking {prometheus.shown_url}"


def _instances(count: int) -> str:
    return "1 instance" if count == 1 else f"{count} instances"


class _Counted:
    """A Prometheus that moves a bar with every answer."""

    def __init__(self, prometheus: Prometheus, progress: Progress) -> None:
        self._prometheus, self._progress = prometheus, progress

    @property
    def now_s(self) -> float:
        """Its clock."""
        return self._prometheus.now_s

    def instant(self, query: str, at: float | None = None, about: str = "") -> Answered:
        """The answer to one query."""
        answered = self._prometheus.instant(query, at, about)
        self._progress.step(_asking(self._prometheus), min(0.95, self._prometheus.asked / USUAL))
        return answered
