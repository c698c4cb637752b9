"""Before and after a change: from a verification, or from two benchmarks that were compared."""

from collections.abc import Sequence

from unslow.facts.bench import LOWER_IS_BETTER, Bench, Comparison, Difference, Spread
from unslow.think.bench.what_changed import Change
from unslow.think.report import Range
from unslow.think.verify.report import FigureShown, IntervalShown, VerifyReport
from unslow.think.view.report import ChangeRow, ChangeView

MOST_CHANGES = 12


def change_of_verify(report: VerifyReport) -> ChangeView:
    """What `unslow verify` found."""
    return ChangeView(
        verdict=report.verdict,
        because=report.because,
        rows=tuple(_verified_row(figure) for figure in report.figures),
        changes=tuple(_changed(c.setting, c.before, c.after) for c in report.changes[:MOST_CHANGES]),
        source="unslow verify",
        answers=report.answers.because if report.answers.wanted else "",
    )


def _changed(name: str, before: str, after: str) -> str:
    return f"{name}: {before or 'unset'} → {after or 'unset'}"


def _verified_row(figure: FigureShown) -> ChangeRow:
    return ChangeRow(
        metric=figure.metric,
        before=_range(figure.before),
        after=_range(figure.after),
        speedup=_range(figure.speedup),
        verdict=figure.verdict,
    )


def _range(shown: IntervalShown) -> Range:
    return Range(low=shown.low, mid=shown.mid, high=shown.high)


def change_of_benches(before: Bench, after: Bench, comparison: Comparison, changes: Sequence[Change]) -> ChangeView:
    """What two benchmarks differ by."""
    rows = [_compared_row(found, before, after) for found in comparison.differences]
    return ChangeView(
        verdict=comparison.verdict,
        because=comparison.because,
        rows=tuple(rows),
        changes=tuple(_changed(c.name, c.before, c.after) for c in changes[:MOST_CHANGES]),
        source=f"the benchmarks of {_moment(before)} and of {_moment(after)}",
    )


def _compared_row(found: Difference, before: Bench, after: Bench) -> ChangeRow:
    return ChangeRow(
        metric=found.metric,
        before=_figure(found.before, before.figures.get(found.metric)),
        after=_figure(found.after, after.figures.get(found.metric)),
        speedup=_speedup(found),
        verdict=found.verdict,
    )


def _figure(level: float, spread: Spread | None) -> Range:
    """The level that was compared, within what the repeats say."""
    if spread is None:
        return Range(low=level, mid=level, high=level)
    return Range(low=min(level, spread.low), mid=level, high=max(level, spread.high))


def _speedup(found: Difference) -> Range:
    """More than 1 is faster, also of times."""
    if found.metric not in LOWER_IS_BETTER:
        return Range(low=found.low, mid=found.ratio, high=found.high)
    low, mid, high = (1 / value if value else 0.0 for value in (found.high, found.ratio, found.low))
    return Range(low=low, mid=mid, high=high)


def _moment(bench: Bench) -> str:
    return bench.taken_at[:16].replace("T", " ") or bench.id
