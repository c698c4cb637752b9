"""The list of benchmarks that are kept."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from unslow.show._bench_compared import ComparedShown, compared_fields, compared_parts
from unslow.show._clean import as_json, safe
from unslow.show._console import bare_table, dim
from unslow.show._kinds import ReportKind
from unslow.show._units import rate

__all__ = ["ComparedShown", "HistoryShown", "compared_fields", "compared_parts", "render_history"]

_STATES = {"interrupted": "stopped", "running": "running now", "broke_off": "broke off", "whole": ""}
_DONE = {"imported": "kept", "forgotten": "removed"}
_WIDE = 100


class _Line(Protocol):
    """One kept benchmark."""

    @property
    def id(self) -> str: ...
    @property
    def taken_at(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def protocol(self) -> str: ...
    @property
    def runtime(self) -> str: ...
    @property
    def runtime_version(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def decode_tokens_per_s(self) -> float | None: ...
    @property
    def prefill_tokens_per_s(self) -> float | None: ...
    @property
    def answered(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def state(self) -> str: ...


class HistoryShown(Protocol):
    """Some of what is kept, or what was done to it."""

    @property
    def what(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def total(self) -> int: ...
    @property
    def benchmarks(self) -> Sequence[_Line]: ...


def _as_fields(report: HistoryShown) -> object:
    """Each line by the names of its fields; a line of the history is a tuple, which JSON would take for a list."""
    lines = [line._asdict() if hasattr(line, "_asdict") else line for line in report.benchmarks]
    known = {"schema": "unslow.benchmarks/1", "what": report.what, "path": report.path, "total": report.total}
    return {**known, "benchmarks": lines}


def _history_parts(report: HistoryShown, width: int) -> Iterator[RenderableType]:
    if report.what in _DONE:
        yield from (Text(f"{_DONE[report.what]} {safe(line.id)}  {safe(line.model)}") for line in report.benchmarks)
        return
    if not report.benchmarks:
        yield f"Nothing is kept in {safe(report.path)}; `unslow bench` measures and keeps."
        return
    yield _history_table(report.benchmarks, width)
    rest = report.total - len(report.benchmarks)
    if rest > 0:
        yield dim(f"and {rest} more in {safe(report.path)}")


def _history_table(lines: Sequence[_Line], width: int) -> Table:
    """Ids whole, so that they can be given back; on a narrow terminal what tells least is left out."""
    wide = width >= _WIDE
    table = bare_table((0, 1, 0, 1), pad_edge=False)
    for name in ("ID", "WHEN") if wide else ("ID",):
        table.add_column(name, no_wrap=True)
    for name in ("DECODE", "PREFILL") if wide else ("DECODE",):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("MODEL AND RUNTIME", "NOTE") if wide else ("MODEL AND RUNTIME",):
        table.add_column(name, overflow="fold")
    for line in lines:
        table.add_row(*(_row if wide else _short_row)(line))
    return table


def _row(line: _Line) -> tuple[str, ...]:
    speeds = (_speed(line.decode_tokens_per_s), _speed(line.prefill_tokens_per_s))
    return safe(line.id), safe(line.taken_at[:16].replace("T", " ")), *speeds, safe(_subject(line)), safe(_note(line))


def _short_row(line: _Line) -> tuple[str, ...]:
    what = "; ".join(word for word in (_subject(line), _note(line)) if word)
    return safe(line.id), _speed(line.decode_tokens_per_s), safe(what)


def _subject(line: _Line) -> str:
    return ", ".join(word for word in (line.model, f"{line.runtime} {line.runtime_version}".strip()) if word)


def _speed(tokens_per_s: float | None) -> str:
    return "-" if tokens_per_s is None else rate(tokens_per_s)


def _note(line: _Line) -> str:
    state = _STATES.get(line.state, line.state)
    words = [line.label, state if state != "broke off" else f"broke off after {line.answered} answers"]
    words += [f"{line.failed} failed"] if line.failed else []
    words += [line.protocol] if line.protocol != "standard" else []
    return ", ".join(word for word in words if word)


render_history = ReportKind[HistoryShown](
    None, _history_parts, json=lambda report: as_json(_as_fields(report)), called="a benchmark", clean=False
)
