"""A sweep as a table: one row for each value, what was measured beside what was expected, and what it means."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from unslow.facts.bench import CLIENT_DECODE, DECODE, FIRST, LOAD, PREFILL, TOGETHER, Sweep, SweepPoint
from unslow.show._console import dim, noted_table
from unslow.show._units import rate, span

_TITLES = {
    "depth": "CONTEXT DEPTH",
    "users": "AT ONCE",
    "minutes": "MINUTE",
    "turns": "TURN",
    "threads": "THREADS",
    "batch": "BATCH",
    "ubatch": "UBATCH",
    "load": "START",
}
_COLUMNS = {
    TOGETHER: "ALL TOGETHER",
    DECODE: "DECODE",
    CLIENT_DECODE: "CLIENT",
    PREFILL: "PREFILL",
    FIRST: "FIRST TOKEN",
    LOAD: "LOAD",
}
_GOOD = frozenset({"slope", "flat", "scales", "steady", "cached", "same", "best_found", "current_is_best", "not_disk"})
_UNCLEAR = frozenset({"cannot_tell"})


def sweep_parts(sweep: Sweep) -> Iterator[RenderableType]:
    """The verdict, the table, and why it ended early."""
    style = "yellow" if sweep.verdict in _UNCLEAR else "green" if sweep.verdict in _GOOD else "red"
    title = _TITLES.get(sweep.axis, sweep.axis.upper())
    yield Padding(
        Text(f"{sweep.verdict.replace('_', ' ')}: ", style=f"bold {style}").append(sweep.because, "not bold default"),
        (0, 0, 0, 2),
    )
    yield _table(title, sweep.points)
    if any(not spread.agree for point in sweep.points for spread in point.figures.values()):
        yield dim("~ the repeats disagree")
    if sweep.stopped_early:
        yield dim(f"not all values were tried: {sweep.stopped_early}")
    yield ""


def _table(title: str, points: Sequence[SweepPoint]) -> RenderableType:
    names = [name for name in _COLUMNS if any(name in point.figures for point in points)]
    expected = [name for name in names if any(name in point.expected for point in points)]
    failed = any(point.failures for point in points)
    columns = [column for name in names for column in (_COLUMNS[name], *(["EXPECTED"] if name in expected else []))]
    rows = [_row(point, names, expected, failed=failed) for point in points]
    return noted_table((f"  {title}", *columns, *(["FAILED"] if failed else [])), rows, [p.note for p in points])


def _row(point: SweepPoint, names: Sequence[str], expected: Sequence[str], *, failed: bool) -> tuple[str, ...]:
    cells = [
        cell
        for name in names
        for cell in (_figure(point, name), *([_expected(point, name)] if name in expected else []))
    ]
    label = point.label.removeprefix("depth ").removeprefix("minute ") or f"{point.at:g}"
    return f"  {label}", *cells, *([str(point.failures or "")] if failed else [])


def _figure(point: SweepPoint, name: str) -> str:
    spread = point.figures.get(name)
    if spread is None:
        return "-"
    return _amount(name, spread.median) + ("" if spread.agree else " ~")


def _expected(point: SweepPoint, name: str) -> str:
    return _amount(name, point.expected[name]) if name in point.expected else ""


def _amount(name: str, value: float) -> str:
    return f"{rate(value)} tok/s" if name.endswith("tokens_per_s") else span(value)
