"""The answer of `unslow fleet capacity`, for a person or a program: how many users at the goal, and what is next."""

from rich.console import Group, RenderableType
from rich.text import Text

from unslow.show._capacity_words import (
    asked,
    at_goal,
    details,
    device,
    ended_by,
    likely,
    model,
    now_and_peak,
    one_more,
    summary,
    taken,
    title,
)
from unslow.show._console import Column, dim, head, hung, item, table_of
from unslow.show._fleet_words import concerned
from unslow.show._kinds import ReportKind
from unslow.show.markdown import escaped
from unslow.think.fleet.capacity_report import CapacityReport, CapacityRow
from unslow.think.fleet.report import Statement

_COLUMNS = (
    Column("MODEL", right=False), Column("RUNTIME", right=False, spare=2), Column("DEVICES", right=False),
    Column("INST"), Column("MEAN/PEAK"), Column("AT GOAL"), Column("80 %", right=False, spare=1),
    Column("ENDED BY", right=False), Column("+1 (GPUS)"),
)  # fmt: skip
_MARKS = (
    "users are requests at once; ~ is simulated, beyond what was measured, all else is measured; "
    "+1 is what one more like instance serves, and on how many GPUs"
)
_MOST_DETAILS, _MOST_ROWS = 8, 40
"""Groups of which more is said below the table, and that are in it: all are in the JSON."""


def _answer(report: CapacityReport, width: int) -> RenderableType:
    parts: list[RenderableType] = [head(*summary(report)), dim(asked(report)), dim(taken(report))]
    parts += [_said(said) for said in report.statements]
    if not report.rows:
        return Group(*parts)
    parts += ["", table_of(_COLUMNS, map(_cells, report.rows[:_MOST_ROWS]), width)]
    if len(report.rows) > _MOST_ROWS:
        parts.append(dim(f"and {len(report.rows) - _MOST_ROWS} groups more, all of them in the JSON"))
    for row in report.rows[:_MOST_DETAILS]:
        parts += ["", Text(title(row), style="bold"), *(item(text) for text in details(row))]
    return Group(*parts, "", dim(_MARKS))


def _said(said: Statement) -> RenderableType:
    text = Text(f"{said.text}{concerned(said)}{_hint(said.hint)}", style="yellow")
    return hung(Text("!", style="yellow"), text)


def _hint(hint: str) -> str:
    return f"; {hint}" if hint else ""


def _cells(row: CapacityRow) -> tuple[str, ...]:
    return (
        model(row), row.runtime, device(row), f"{row.instances:,}", now_and_peak(row), at_goal(row), likely(row),
        ended_by(row), one_more(row),
    )  # fmt: skip


def _markdown(report: CapacityReport) -> str:
    label, text = summary(report)
    lines = [f"### {escaped(label)} {escaped(text)}", "", f"{escaped(asked(report))}; {escaped(taken(report))}.", ""]
    lines += [f"> {escaped(said.text + concerned(said) + _hint(said.hint))}" for said in report.statements]
    if report.rows:
        names = [column.name.capitalize() for column in _COLUMNS]
        lines += ["", f"| {' | '.join(names)} |", f"|{'|'.join('--:' if c.right else '---' for c in _COLUMNS)}|"]
        lines += [f"| {' | '.join(map(_cell, _cells(row)))} |" for row in report.rows]
    for row in report.rows[:_MOST_DETAILS]:
        lines += ["", f"**{escaped(title(row))}**", "", *(f"- {escaped(text)}" for text in details(row))]
    return "\n".join([*lines, "", f"{_MARKS}.", "", f"<sub>Written by unslow {report.unslow_version}.</sub>", ""])


def _cell(text: str) -> str:
    return escaped(text).replace("|", "&#124;")


render_capacity = ReportKind(CapacityReport, _answer, markdown=_markdown)
