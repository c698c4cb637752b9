"""The figures of a capacity in words: what was measured stands plain, what was simulated has a mark."""

import re
from collections.abc import Iterator, Sequence

from unslow.show._units import rate, span
from unslow.think.fleet.capacity_limits import CACHE, SPEED, UNSEEN
from unslow.think.fleet.capacity_report import CapacityReport, CapacityRow, CurvePoint, Step

SIMULATED = "~"
_MAKERS = re.compile(r"\b(?:NVIDIA|AMD|Intel)\s+(?:GeForce\s+|Instinct\s+|Radeon\s+|Arc\s+)?")
_SHORT = {SPEED: "speed", CACHE: "cache", UNSEEN: "not seen"}
_SMALL = 10.0
"""Requests below which a tenth of one is worth showing."""
_LONGEST_DEVICE = 16
_MOST_POINTS = 8
"""Of a curve on one line."""


def summary(report: CapacityReport) -> tuple[str, str]:
    """The whole fleet in a line: a label, and what it is about."""
    known = [row for row in report.rows if row.users_at_goal]
    if not known:
        return "CAN'T TELL", "how many users this fleet can serve" if report.rows else "no instance was found"
    mid = sum(row.users_at_goal.mid for row in known if row.users_at_goal)
    mark = SIMULATED if any(row.basis == "simulated" for row in known) else ""
    instances, left = sum(row.instances for row in known), len(report.rows) - len(known)
    other = f"; {left} group{'' if left == 1 else 's'} can't be told" if left else ""
    peaks = [row.users_peak for row in known if row.users_peak is not None]
    peak = f", {_few(sum(peaks))} at the peak" if peaks else ""
    return f"{mark}{mid:,.0f} USERS", f"at the goal on {_counted(instances, 'instance')}{peak}{other}"


def asked(report: CapacityReport) -> str:
    """The goal in words."""
    goal = report.goal
    speed = [f"{goal.tokens_per_s:g} tok/s or more for each"] if goal.tokens_per_s is not None else []
    first = [f"the first token within {span(goal.first_token_s)}"] if goal.first_token_s is not None else []
    return f"goal: {' and '.join(speed + first)}"


def taken(report: CapacityReport) -> str:
    """How far back, and what that took."""
    return f"the last {span(report.span_s)} of {report.prometheus}, {report.queries} queries, {span(report.seconds)}"


def title(row: CapacityRow) -> str:
    """Who the group is."""
    gpus = f", {_counted(row.gpus, 'GPU')}" if row.gpus else ""
    names = [row.model, row.runtime, row.devices, f"{_counted(row.instances, 'instance')}{gpus}"]
    return " · ".join(name for name in names if name)


def model(row: CapacityRow) -> str:
    """Without who published it: tables are narrow."""
    return row.model.rpartition("/")[2] or row.runtime


def device(row: CapacityRow) -> str:
    """The devices of one instance, without who made them."""
    name = _MAKERS.sub("", row.devices) or "?"
    return name if len(name) <= _LONGEST_DEVICE else f"{name[: _LONGEST_DEVICE - 1]}…"


def now_and_peak(row: CapacityRow) -> str:
    """Requests at once, in the mean and at most."""
    if row.users_now is None or row.users_peak is None:
        return "?"
    return f"{_few(row.users_now)}/{_few(row.users_peak)}"


def at_goal(row: CapacityRow) -> str:
    """With a mark where it was simulated, and a plus where even more may be."""
    if row.users_at_goal is None:
        return "?"
    return f"{_mark(row.basis)}{row.users_at_goal.mid:,.0f}{'+' if row.limit == UNSEEN else ''}"


def likely(row: CapacityRow) -> str:
    """Both ends."""
    users = row.users_at_goal
    return f"{users.low:,.0f}-{users.high:,.0f}" if users else "-"


def ended_by(row: CapacityRow) -> str:
    """What ends it, in a word."""
    return _SHORT.get(row.limit, row.limit) or "-"


def one_more(row: CapacityRow) -> str:
    """What one more like instance buys, and on how many GPUs."""
    if not row.next:
        return "-"
    return f"{_gain(row.next[0])} ({row.next[0].gpus})" if row.next[0].gpus else _gain(row.next[0])


def details(row: CapacityRow) -> Iterator[str]:
    """The interval, the curve, what a simulation rests on or why nothing can be told, and what else can be had."""
    if row.users_at_goal:
        low, high = row.users_at_goal.low, row.users_at_goal.high
        ends = f", {low:,.0f} to {high:,.0f} likely" if low < high else ""
        yield f"{at_goal(row)} users at the goal{ends}; ended by: {row.limit}"
    if row.because:
        yield row.because
    if row.points:
        yield f"tok/s of each by requests at once on an instance: {_curve(row.points)}"
    yield from row.notes
    for step in row.next[1:]:
        low, high = (step.users.low, step.users.high) if step.users else (0.0, 0.0)
        gain = f"{_gain(step)} users, {low:+,.0f} to {high:+,.0f} likely"
        none = f"{_mark(step.basis)}no more users"
        yield f"{step.what}: {gain if round(low) or round(high) else none}; {step.because}"


def _curve(points: Sequence[CurvePoint]) -> str:
    """Such as 1: 117, 2: 86, 4: 50, ~8: 29: of many the first, the last and some between."""
    measured = [point for point in points if point.basis == "measured"]
    shown = [*_spaced(measured), *(point for point in points if point.basis != "measured")]
    return ", ".join(f"{_mark(p.basis)}{_few(round(p.requests, 1))}: {rate(p.tokens_per_s.mid)}" for p in shown)


def _spaced(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """A few of many, each about as many times the load of the one before."""
    if len(points) <= _MOST_POINTS:
        return list(points)
    first, last = points[0].requests, points[-1].requests
    wanted = [first * (last / first) ** (n / (_MOST_POINTS - 1)) for n in range(_MOST_POINTS)]
    nearest = (min(range(len(points)), key=lambda n: abs(points[n].requests - load)) for load in wanted)
    return [points[n] for n in sorted(set(nearest))]


def _gain(step: Step) -> str:
    return f"{_mark(step.basis)}{step.users.mid:+,.0f}" if step.users else "?"


def _mark(basis: str) -> str:
    return SIMULATED if basis == "simulated" else ""


def _few(users: float) -> str:
    return f"{users:,.0f}" if users >= _SMALL or users == int(users) else f"{users:.1f}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
