"""The answer of `unslow tune`: the winner first, then every trial, and the line to use."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from unslow.show.console import ReportKind, command_text, dim, indent_text, plain_table, verdict_head, warning
from unslow.show.units import rate, span
from unslow.show.verify import interval, work_words
from unslow.think.stats.tuning import TuneReport

_LEAST_NAME = 20  # Columns for the names of settings, at 80 in all
_ENDLESS = 1e6
_NONE = "·"


def _parts(report: TuneReport, _width: int) -> Iterator[RenderableType]:
    yield verdict_head(report.verdict, report.because)
    yield dim(f"{report.model}, context {report.context:,}: {work_words(report.work)}")
    rounds = "1 round" if report.rounds == 1 else f"{report.rounds} rounds"
    spent = f"{rounds} in {report.spent_s:.0f} s of {report.budget_s:.0f}"
    yield dim(f"{spent}: {report.ended}" if report.ended else spent)
    yield ""
    if report.rounds:
        yield Padding(_table(report), (0, 0, 0, 2))
        yield ""
    if report.winner is not None:
        best = report.trials[report.winner]
        yield indent_text(best.name)
        over_plan = report.over_plan if report.plan else None  # a plan that is the default is told once
        for name, over in (("llama.cpp's defaults", report.over_default), ("the plan", over_plan)):
            if over:
                yield indent_text(f"×{over.mid:.3f} the speed of {name} (95 % interval: {interval(over)})")
        if best.predicted and best.request_s:
            said = best.predicted.request_s
            likely = f"{span(said.low)} to {span(said.high)}"
            yield dim(f"a request takes {span(best.request_s.mid)}; predicted: {span(said.mid)} ({likely})")
        yield ""
        yield command_text(report.command)
        yield ""
    for trial in report.trials:
        if trial.dropped:
            yield dim(f"{trial.name}: {trial.dropped}")
    yield from map(warning, report.notes)


def _table(report: TuneReport) -> Table:
    table = plain_table("SETTINGS", "REQUEST", "TOK/S", "PREFILL", "×", "95 % INTERVAL", "N")
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    table.columns[0].min_width = _LEAST_NAME
    best = report.trials[report.winner] if report.winner is not None else None
    # By the ratio within common rounds: seconds of different rounds tell of different minutes
    by_time = sorted(report.trials, key=lambda trial: trial.request_s.mid if trial.request_s else 0.0)
    for trial in sorted(by_time, key=lambda trial: -(trial.over_default.mid if trial.over_default else 1.0)):
        if trial.request_s:
            over = trial.over_default
            speeds = trial.decode_tokens_per_s, trial.prefill_tokens_per_s
            rates = [rate(value) if value else _NONE for value in speeds]
            gain = (f"{over.mid:.3f}", interval(over) if over.high < _ENDLESS else _NONE) if over else ("1", _NONE)
            row = trial.name, span(trial.request_s.mid), *rates, *gain, str(trial.rounds)
            table.add_row(*row, style="green" if trial is best else "dim" if trial.dropped else "")
    return table


render_tune = ReportKind(TuneReport, _parts, crop=False)
