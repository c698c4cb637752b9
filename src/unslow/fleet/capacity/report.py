"""The versioned answer of `unslow fleet capacity`: what was measured stands plain, what was simulated has a mark."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from unslow.fleet.capacity.limits import CACHE, FIRST, SPEED, UNSEEN
from unslow.fleet.report import Statement
from unslow.fleet.show import concerned_words
from unslow.show.console import Column, ReportKind, dim, hanging_grid, head, item, table_of
from unslow.show.markdown import escape_markdown
from unslow.show.units import rate, span
from unslow.think.report import Range

SCHEMA = "unslow.capacity/1"
Basis = Literal["measured", "simulated", "cannot_tell"]
SIMULATED = "~"
_MAKERS = re.compile(r"\b(?:NVIDIA|AMD|Intel)\s+(?:GeForce\s+|Instinct\s+|Radeon\s+|Arc\s+)?")
_SHORT = {SPEED: "decode", FIRST: "first token", CACHE: "cache", UNSEEN: "not reached"}
_SMALL = 10.0  # Requests below which a tenth of one is worth showing
_LONGEST_DEVICE = 16
_MOST_POINTS = 8  # Of a curve on one line
_COLUMNS = (
    Column("MODEL", right=False), Column("RUNTIME", right=False, spare=2), Column("DEVICES", right=False),
    Column("INST"), Column("MEAN/PEAK"), Column("AT GOAL"), Column("80 %", right=False, spare=1),
    Column("LIMITED BY", right=False), Column("+1 (GPUS)"),
)  # fmt: skip
_MARKS = (
    "users: concurrent requests; ~: simulated, beyond the measured load; "
    "+1: users gained by one more instance of the kind, and its GPUs"
)
_MOST_DETAILS, _MOST_ROWS = 8, 40
"""Groups of which more is said below the table, and that are in it: all are in the JSON."""


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """Speed and latency that each user must get."""

    tokens_per_s: float | None = None
    first_token_s: float | None = None


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """Speed and latency per request at one load of an instance."""

    requests: float
    tokens_per_s: Range
    first_token_s: Range | None = None
    basis: Basis
    samples: int = 0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Users gained by one change."""

    what: str  # Such as "one more instance on 2 GPUs"
    gpus: int
    users: Range | None  # Users gained at the goal
    basis: Basis
    because: str = ""


class CapacityRow(msgspec.Struct, frozen=True, kw_only=True):
    """Instances with the same runtime, model and devices."""

    runtime: str
    model: str
    devices: str
    instances: int
    gpus: int | None
    users_now: float | None  # Concurrent requests of the group, mean
    users_peak: float | None
    users_at_goal: Range | None  # Of the whole group; None if undetermined
    basis: Basis
    limit: str = ""  # What limits it: decode speed, time to first token, KV cache or slots
    beyond: float | None = None  # The extrapolated load as a multiple of the highest measured one
    points: tuple[CurvePoint, ...] = ()
    next: tuple[Step, ...] = ()
    because: str = ""  # Why it is undetermined, or what the simulation is based on
    notes: tuple[str, ...] = ()  # Limitations: unknown time to first token, uneven load


class CapacityReport(msgspec.Struct, frozen=True, kw_only=True):
    """The capacity of a fleet."""

    schema: str = SCHEMA
    unslow_version: str
    prometheus: str
    taken_at: str
    span_s: float  # Time range of the data
    queries: int
    seconds: float
    complete: bool
    goal: Goal
    statements: tuple[Statement, ...] = ()
    rows: tuple[CapacityRow, ...] = ()


def _answer(report: CapacityReport, width: int) -> RenderableType:
    parts: list[RenderableType] = [head(*capacity_summary(report)), *map(dim, about_words(report))]
    said = (Text(_statement_text(one), style="yellow") for one in report.statements)
    parts += [hanging_grid(Text("!", style="yellow"), text) for text in said]
    if not report.rows:
        return Group(*parts)
    parts += ["", table_of(_COLUMNS, map(_cells, report.rows[:_MOST_ROWS]), width)]
    if len(report.rows) > _MOST_ROWS:
        parts.append(dim(f"and {len(report.rows) - _MOST_ROWS} more groups (--json lists all)"))
    for row in report.rows[:_MOST_DETAILS]:
        parts += ["", Text(capacity_title(row), style="bold"), *(item(text) for text in details(row))]
    return Group(*parts, "", dim(_MARKS))


def _markdown(report: CapacityReport) -> str:
    label, text = map(escape_markdown, capacity_summary(report))
    asked, taken = map(escape_markdown, about_words(report))
    lines = [f"### {label} {text}", "", f"{asked}; {taken}.", ""]
    lines += [f"> {escape_markdown(_statement_text(one))}" for one in report.statements]
    if report.rows:
        names = [column.name.capitalize() for column in _COLUMNS]
        lines += ["", f"| {' | '.join(names)} |", f"|{'|'.join('--:' if c.right else '---' for c in _COLUMNS)}|"]
        cells = ([escape_markdown(cell).replace("|", "&#124;") for cell in _cells(row)] for row in report.rows)
        lines += [f"| {' | '.join(row)} |" for row in cells]
    for row in report.rows[:_MOST_DETAILS]:
        lines += ["", f"**{escape_markdown(capacity_title(row))}**", ""]
        lines += [f"- {escape_markdown(text)}" for text in details(row)]
    return "\n".join([*lines, "", f"{_MARKS}.", "", f"<sub>Written by unslow {report.unslow_version}.</sub>", ""])


render_capacity = ReportKind(CapacityReport, _answer, markdown=_markdown)


def _statement_text(said: Statement) -> str:
    return f"{said.text}{concerned_words(said)}{f'; {said.hint}' if said.hint else ''}"


def _cells(row: CapacityRow) -> tuple[str, ...]:
    users, name = row.users_at_goal, row.model.rpartition("/")[2] or row.runtime  # tables are narrow
    known = row.users_now is not None and row.users_peak is not None
    load = f"{_users_words(row.users_now or 0.0)}/{_users_words(row.users_peak or 0.0)}" if known else "?"
    device = _MAKERS.sub("", row.devices) or "?"
    short = device if len(device) <= _LONGEST_DEVICE else f"{device[: _LONGEST_DEVICE - 1]}…"
    more = row.next[0] if row.next else None
    buys = f"{_gain(more)}{f' ({more.gpus})' if more.gpus else ''}" if more else "-"
    return (
        name, row.runtime, short, f"{row.instances:,}", load, at_goal(row),
        f"{users.low:,.0f}-{users.high:,.0f}" if users else "-", _SHORT.get(row.limit, row.limit) or "-", buys,
    )  # fmt: skip


def capacity_summary(report: CapacityReport) -> tuple[str, str]:
    """The whole fleet in a line: a label, and what it is about."""
    known = [row for row in report.rows if row.users_at_goal]
    if not known:
        return "CANNOT TELL", "how many users this fleet can serve" if report.rows else "no instances found"
    mid = sum(row.users_at_goal.mid for row in known if row.users_at_goal)
    mark = SIMULATED if any(row.basis == "simulated" for row in known) else ""
    instances, left = sum(row.instances for row in known), len(report.rows) - len(known)
    other = f"; {left} group{'' if left == 1 else 's'} undetermined" if left else ""
    peaks = [row.users_peak for row in known if row.users_peak is not None]
    peak = f", peak load {_users_words(sum(peaks))}" if peaks else ""
    return f"{mark}{mid:,.0f} USERS", f"at the goal on {_count_words(instances, 'instance')}{peak}{other}"


def about_words(report: CapacityReport) -> tuple[str, str]:
    """The goal; then how far back was looked, and what that took."""
    goal = report.goal
    speed = [f"at least {goal.tokens_per_s:g} tok/s per request"] if goal.tokens_per_s is not None else []
    first = [f"first token within {span(goal.first_token_s)}"] if goal.first_token_s is not None else []
    taken = f"the last {span(report.span_s)} of {report.prometheus}, {report.queries} queries, {span(report.seconds)}"
    return f"goal: {' and '.join(speed + first)}", taken


def capacity_title(row: CapacityRow) -> str:
    """Who the group is."""
    gpus = f", {_count_words(row.gpus, 'GPU')}" if row.gpus else ""
    names = [row.model, row.runtime, row.devices, f"{_count_words(row.instances, 'instance')}{gpus}"]
    return " · ".join(name for name in names if name)


def at_goal(row: CapacityRow) -> str:
    """With a mark where it was simulated, and a plus where even more may be."""
    if row.users_at_goal is None:
        return "?"
    return f"{_mark(row.basis)}{row.users_at_goal.mid:,.0f}{'+' if row.limit == UNSEEN else ''}"


def details(row: CapacityRow) -> Iterator[str]:
    """The interval, the curve, what a simulation rests on or why nothing can be told, and what else can be had."""
    if row.users_at_goal:
        low, high = row.users_at_goal.low, row.users_at_goal.high
        ends = f", {low:,.0f} to {high:,.0f} likely" if low < high else ""
        yield f"{at_goal(row)} users at the goal{ends}; limited by: {row.limit}"
    if row.because:
        yield row.because
    if row.points:
        yield f"tok/s per request, by concurrent requests per instance: {_curve(row.points)}"
    yield from row.notes
    for step in row.next[1:]:
        low, high = (step.users.low, step.users.high) if step.users else (0.0, 0.0)
        gain = f"{_gain(step)} users, {low:+,.0f} to {high:+,.0f} likely"
        none = f"{_mark(step.basis)}no more users"
        yield f"{step.what}: {gain if round(low) or round(high) else none}; {step.because}"


def _curve(points: Sequence[CurvePoint]) -> str:
    """Such as 1: 117, 2: 86, 4: 50, ~8: 29: of many the first, the last and some between."""
    measured = [point for point in points if point.basis == "measured"]
    if len(measured) > _MOST_POINTS:  # each about as many times the load of the one before
        first, last = measured[0].requests, measured[-1].requests
        wanted = [first * (last / first) ** (n / (_MOST_POINTS - 1)) for n in range(_MOST_POINTS)]
        nearest = (min(range(len(measured)), key=lambda n: abs(measured[n].requests - load)) for load in wanted)
        measured = [measured[n] for n in sorted(set(nearest))]
    shown = [*measured, *(point for point in points if point.basis != "measured")]
    return ", ".join(f"{_mark(p.basis)}{_users_words(round(p.requests, 1))}: {rate(p.tokens_per_s.mid)}" for p in shown)


def _gain(step: Step) -> str:
    return f"{_mark(step.basis)}{step.users.mid:+,.0f}" if step.users else "?"


def _mark(basis: str) -> str:
    return SIMULATED if basis == "simulated" else ""


def _users_words(users: float) -> str:
    return f"{users:,.0f}" if users >= _SMALL or users == int(users) else f"{users:.1f}"


def _count_words(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
