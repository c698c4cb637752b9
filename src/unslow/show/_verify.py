"""The answer of `unslow verify`: the verdict first, then what it rests on, what the plan had said, what differs."""

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from unslow.facts.verified import Side, dump_side
from unslow.show._clean import safe, safe_json
from unslow.show._console import GREEN, RED, YELLOW, TextConsole, dim, head, indented, plain_table, warning
from unslow.show._kinds import ReportKind
from unslow.show._verify_markdown import verify_markdown
from unslow.show._verify_words import (
    NAMES,
    WAYS,
    WORDS,
    amount,
    answer_lines,
    interval,
    predicted_words,
    speedup,
    time_words,
    work_words,
)
from unslow.think.verify.report import FigureShown, VerifyReport

_HEADS = {
    "faster": ("FASTER", GREEN),
    "same": ("SAME", GREEN),
    "slower": ("SLOWER", RED),
    "answers_changed": ("ANSWERS CHANGED", RED),
    "broken": ("BROKEN", RED),
    "cannot_tell": ("CAN'T TELL", YELLOW),
}
_STYLES = {"slower": "red", "faster": "green", "same": "", "cannot_tell": "yellow"}
_NOTHING = "not set"
_ANY_WIDTH = 10_000


def render_side(side: Side, form: str, path: str, *, width: int, color: bool) -> str:
    """What was kept of one server, to be held against another later."""
    if form == "json":
        return safe_json(dump_side(side).decode())
    console = TextConsole(width=width, color=color)
    console.print(Text(safe(f"{side.what}: {len(side.samples)} rounds kept in {path}"), style="bold"))
    console.print(dim("change it and start it again, then:"))
    line = f"  unslow verify --against {shlex.quote(path)} {shlex.quote(side.what)}"
    console.print(Text(safe(line), style="dim"), soft_wrap=True)  # one line, however long: it is there to be copied
    return console.text


def _parts(report: VerifyReport, width: int) -> Iterator[RenderableType]:
    word, style = _HEADS[report.verdict]
    yield head(word, report.because, style)
    yield dim(f"{WAYS[report.way]}: {work_words(report.work)}")
    if report.took_s is not None:
        yield dim(time_words(report))
    yield ""
    if report.figures:
        yield _figures(report, width)
        yield ""
    said, *rest = answer_lines(report.answers)
    if report.verdict != "answers_changed":  # else it is the headline
        yield indented(said)
    yield from map(dim, rest)
    if report.predicted:
        yield indented(predicted_words(report.predicted))
    yield ""
    yield from _sides(report)
    yield from map(warning, report.notes)


def _figures(report: VerifyReport, width: int) -> Table:
    """The widest table that fits: rather narrow gaps than fewer columns, rather fewer columns than half a figure."""
    rows = [_row(one) for one in report.figures]
    left_out: tuple[tuple[str, ...], ...] = ((), ("ROUNDS",), ("ROUNDS", "95 % INTERVAL"))
    tables = [_table(rows, ()), *(_table(rows, names, gap=1) for names in left_out)]
    fitting = (table for table in tables if Console(width=_ANY_WIDTH).measure(table).maximum <= width)
    return next(fitting, None) or _folded(tables[-1])


def _row(one: FigureShown) -> dict[str, RenderableType]:
    before, after = (amount(one.metric, side.mid) for side in (one.before, one.after))
    return {
        "  FIGURE": f"  {NAMES[one.metric]}",
        "BEFORE": before,
        "AFTER": after,
        "SPEED-UP": speedup(one),
        "95 % INTERVAL": interval(one.speedup),
        "ROUNDS": str(one.rounds),
        "VERDICT": Text(WORDS[one.verdict], style=_STYLES[one.verdict]),
    }


def _table(rows: Sequence[dict[str, RenderableType]], left_out: Sequence[str], gap: int = 0) -> Table:
    names = [name for name in rows[0] if name not in left_out]
    table = plain_table(*names)
    if gap:
        table.padding = (0, gap, 0, 0)
    for row in rows:
        table.add_row(*(row[name] for name in names))
    return table


def _folded(table: Table) -> Table:
    for column in table.columns:
        column.no_wrap, column.overflow = False, "fold"
    return table


def _sides(report: VerifyReport) -> Iterator[RenderableType]:
    yield dim(f"before: {report.before.what}")
    yield dim(f"after:  {report.after.what}")
    for change in report.changes:
        yield indented(f"{change.setting}: {change.before or _NOTHING} → {change.after or _NOTHING}")


render_verify = ReportKind(VerifyReport, _parts, markdown=verify_markdown)
