"""How many users a fleet can serve at a goal: ask for the curves, and let physics go on where they end."""

import re
import time
from datetime import UTC, datetime

from unslow import __version__
from unslow.app.fleet.durations import seconds_of
from unslow.app.fleet.reading import IN_PART
from unslow.app.fleet.request import FleetRequest
from unslow.app.progress import Progress
from unslow.facts.errors import UserError
from unslow.fleet.asking.prometheus import Prometheus
from unslow.fleet.curves import read_curves
from unslow.fleet.members import read_members
from unslow.think.fleet.capacity import rows_of
from unslow.think.fleet.capacity_report import CapacityReport, Goal

DEFAULT_GOAL = "20 tok/s"
"""Some four times as fast as people read: 238 words a minute (Brysbaert, 2019), at four tokens for three words."""
SPAN_S = 86400.0
SHORTEST_SPAN_S, LONGEST_SPAN_S = 60.0, 31 * 86400.0
FASTEST, LONGEST_FIRST_S = 1e6, 86400.0
_SPEED = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*+(?:(?:tok(?:en)?s?|t)\s*(?:/|per)\s*(?:s|sec|second))?\s*")
_SECONDS = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*+(ms|s)?\s*")


def goal_of(speed: str | None, first_token: str | None) -> Goal:
    """From what the user wrote, such as `20 tok/s` and `2`; 20 tok/s where nothing is asked for."""
    if not speed and not first_token:
        speed = DEFAULT_GOAL
    return Goal(
        tokens_per_s=_speed(speed) if speed else None, first_token_s=_seconds(first_token) if first_token else None
    )


def span_of(text: str | None) -> float:
    """How far back to look, from what the user wrote."""
    span = seconds_of(text, "--span") if text else SPAN_S
    if not SHORTEST_SPAN_S <= span <= LONGEST_SPAN_S:
        raise UserError(f"--span {text} makes no sense", "give 1m to 31d; the default is 24h")
    return span


def capacity_report(request: FleetRequest, goal: Goal, progress: Progress, span_s: float = SPAN_S) -> CapacityReport:
    """The table of a fleet."""
    began = time.monotonic()
    with Prometheus(request.access, progress.say) as prometheus:
        return _report(prometheus, request, goal, progress, span_s, began)


def _report(
    prometheus: Prometheus, request: FleetRequest, goal: Goal, progress: Progress, span_s: float, began: float
) -> CapacityReport:
    progress.step("finding the instances", 0.0)
    members, said = read_members(prometheus, request.options)
    curves = read_curves(
        prometheus, members, request.options, span_s, lambda text, share: progress.step(text, 0.3 + share / 2)
    )
    progress.step("working out what each group can serve", 0.8)
    rows = tuple(rows_of(curves.likes, goal))
    statements = tuple(dict.fromkeys((*prometheus.statements(), *said, *curves.statements)))
    progress.step("done", 1.0)
    return CapacityReport(
        unslow_version=__version__,
        prometheus=prometheus.shown_url,
        taken_at=datetime.fromtimestamp(prometheus.now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        span_s=span_s,
        queries=prometheus.asked,
        seconds=time.monotonic() - began,
        complete=not any(one.kind in IN_PART for one in statements),
        goal=goal,
        statements=statements,
        rows=rows,
    )


def _speed(text: str) -> float:
    found = _SPEED.fullmatch(text.lower())
    speed = float(found[1]) if found else 0.0
    if not 0 < speed <= FASTEST:
        raise UserError(f"--goal {text[:40]!r} is no speed", 'write it as --goal "20 tok/s"')
    return speed


def _seconds(text: str) -> float:
    found = _SECONDS.fullmatch(text.lower())
    seconds = float(found[1]) / (1000 if found[2] == "ms" else 1) if found else 0.0
    if not 0 < seconds <= LONGEST_FIRST_S:
        raise UserError(f"--first-token {text[:40]!r} is no time", "write it in seconds: --first-token 2, or 800ms")
    return seconds
