"""What a fleet did over a day, as moments of groups of like instances: a constant number of range queries."""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from unslow.fleet.answered import AnsweredCurves
from unslow.fleet.curves_groups import likes_of
from unslow.fleet.curves_moments import Grid, Row
from unslow.fleet.curves_queries import curve_queries
from unslow.fleet.curves_whose import Whose
from unslow.fleet.member import Member
from unslow.fleet.options import Options
from unslow.think.fleet.capacity_moments import Like
from unslow.think.fleet.report import Statement

MOST_POINTS = 300_000
"""Of one answer, over all its series: some 10 MB of JSON."""
MOST_PER_SERIES = 10_000
"""Prometheus refuses more than 11,000 points of a series."""
WINDOW_S = 60.0
"""At a scrape each 15 s, which is usual."""
SHORTEST_WINDOW_S = 15.0
LONGEST_WINDOW_S = 300.0
"""A longer window mixes loads that were not there at the same time."""
SCRAPES = 4
"""In a window: two make a rate, and now and then one is missed."""
FEWEST_MOMENTS = 12
"""That are looked at, however many instances there are."""


class Asked(Protocol):
    """What is needed of a Prometheus; `asking.prometheus.Prometheus` is one."""

    @property
    def now_s(self) -> float:
        """The moment of all questions."""

    def curves(self, query: str, start_s: float, end_s: float, step_s: float, about: str = "") -> AnsweredCurves:
        """The series over time."""


class Curves(NamedTuple):
    """Groups of like instances, and what a reader must know before trusting them."""

    likes: list[Like]
    statements: tuple[Statement, ...]


def read_curves(
    prometheus: Asked, members: Sequence[Member], options: Options, span_s: float, step: Callable[[str, float], None]
) -> Curves:
    """Ask for every curve, and put it together by instance and group; `step` is told what is being read."""
    grid = grid_of(prometheus.now_s, span_s, members)
    rows: dict[str, dict[str, Row]] = {member.key: {} for member in members}
    whose, queries = Whose(members), curve_queries(options, grid.window_s)
    for place, query in enumerate(queries):
        step(f"reading {query.why}", place / len(queries))
        answer = prometheus.curves(query.promql, grid.start_s, grid.end_s, grid.step_s, query.name)
        for curve in answer.curves:
            key = whose.key(curve.labels)
            if key:
                rows[key].setdefault(query.name, grid.row(curve))
    return Curves(likes_of(members, rows, grid), tuple(_statements(grid, span_s, whose, rows)))


def grid_of(now_s: float, span_s: float, members: Sequence[Member]) -> Grid:
    """Moments over the span: as many as one answer may hold, and no closer together than their windows."""
    window = min(LONGEST_WINDOW_S, max(SHORTEST_WINDOW_S, SCRAPES * _scrape_s(members)), span_s)
    most = min(MOST_PER_SERIES, max(FEWEST_MOMENTS, MOST_POINTS // max(1, len(members))))
    count = max(1, min(most, int(span_s / window)))
    step = max(window, span_s / count)
    return Grid(now_s - step * (count - 1), step, count, window)


def _scrape_s(members: Sequence[Member]) -> float:
    """How often the instances are scraped, in the middle."""
    every = [
        m.window_s / m.engine["samples"].value for m in members if "samples" in m.engine and m.engine["samples"].value
    ]
    return statistics.median(every) if every else SHORTEST_WINDOW_S


def _statements(grid: Grid, span_s: float, whose: Whose, rows: dict[str, dict[str, Row]]) -> list[Statement]:
    said = []
    if grid.step_s > 1.5 * grid.window_s:
        share = grid.window_s / grid.step_s
        text = f"of each instance {grid.points} moments of {grid.window_s:.0f} s were read, {share:.0%} of the time"
        said.append(Statement(kind="note", text=text, hint="--match reads fewer instances, --span less time"))
    if whose.strangers:
        text = "curves were left out that belong to no instance that is there now"
        said.append(Statement(kind="note", text=text, instances=len(whose.strangers)))
    first = _first(rows, grid)
    if first is not None and first * grid.step_s > span_s / 4:
        gone = f"{first * grid.step_s / 3600:.1f} of {span_s / 3600:.1f} h"
        said.append(Statement(kind="note", text=f"nothing is kept of the first {gone}"))
    return said


def _first(rows: dict[str, dict[str, Row]], grid: Grid) -> int | None:
    """The place of the first moment of which anything is known."""
    known = [row["running"] for row in rows.values() if "running" in row]
    return next((n for n in range(grid.points) if any(row[n] is not None for row in known)), None)
