"""The benchmarks that are kept: listed, brought in from files, written out, forgotten, and held against each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from unslow import __version__
from unslow.commands._output import write_file
from unslow.facts.bench import LARGEST_BENCH_BYTES, SCHEMA, Bench, Entry, HistoryReport, parse_bench
from unslow.facts.errors import UserError
from unslow.facts.run import Earlier
from unslow.facts.stored_json import dump_stored
from unslow.facts.values import Fact, failed_fact, not_found
from unslow.look.bench.llama_bench import parse_llama_bench
from unslow.look.stored.history import History, default_history
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem
from unslow.show.bench import render_llama_bench
from unslow.think.case.view import CaseView
from unslow.think.speed.calibration import mark_of
from unslow.think.stats.changes import BenchComparison, changes_between, earlier_of, suspect
from unslow.think.stats.comparison import compare_benches
from unslow.think.stats.figures import figures_of
from unslow.think.stats.llama_bench import benches_of

Form = Literal["unslow", "llama-bench"]
SHOWN = 50
_FILE_HINT = "give a file written by `unslow bench -o FILE` or `llama-bench -o json`"
_HOW = "run `unslow bench` before and after an update"
_MOST = 20


def list_benchmarks(history: History | None = None) -> HistoryReport:
    """The newest benchmarks."""
    history = history or default_history()
    return _report(history, history.all(SHOWN))


def import_file(path: str, history: History | None = None) -> HistoryReport:
    """Keep every benchmark of a file; one that is there already stays one."""
    history = history or default_history()
    benches = read_benches(path)
    for bench in benches:
        history.keep(bench)
    kept = [history.entry(bench.id) for bench in benches]
    return _report(history, [entry for entry in kept if entry], "imported")


def forget(word: str, history: History | None = None) -> HistoryReport:
    """Remove the one that is meant, or all with that label; UserError where there is none."""
    history = history or default_history()
    return _report(history, history.forget(word), "forgotten")


def _report(
    history: History, entries: Sequence[Entry], what: Literal["kept", "imported", "forgotten"] = "kept"
) -> HistoryReport:
    return HistoryReport(what=what, path=str(history.path), total=history.count(), benchmarks=tuple(entries))


def read_benches(path: str) -> tuple[Bench, ...]:
    """The benchmarks of a file: our own, or one for each setup of llama-bench's; UserError where it is neither."""
    try:
        data = LiveSystem().read_bytes(path, LARGEST_BENCH_BYTES)
    except LookError as error:
        raise UserError(f"cannot read {path}: {error.why.removeprefix(f'{path}: ')}", _FILE_HINT) from error
    if data.lstrip()[:1] == b"{" and SCHEMA.rpartition("/")[0].encode() in data[:4096]:
        return (parse_bench(data, path),)
    return benches_of(parse_llama_bench(data.decode("utf-8", "replace"), path), __version__)


def compare_with(bench: Bench, word: str, history: History | None = None) -> BenchComparison:
    """Hold it against an earlier one: LAST, an id, a label or a file."""
    history = history or default_history()
    try:
        before = history.find(word, like=bench)
    except UserError:
        if not _is_file(word):
            raise
        like = bench.settings.items()
        before = max(read_benches(word), key=lambda b: (b.model == bench.model, len(like & b.settings.items())))
    return compared_to(bench, with_figures(before), history)


def check_meant(word: str) -> None:
    """UserError where no benchmark can be meant: better told before it is measured. LAST is not known before."""
    if word.strip().casefold().startswith("last"):
        return
    try:
        default_history().find(word)
    except UserError:
        if not _is_file(word):
            raise
        read_benches(word)


def _is_file(word: str) -> bool:
    try:
        return Path(word).exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def compared_to(bench: Bench, before: Bench, history: History) -> BenchComparison:
    """Hold it against that one; what runs differ by is learned from the history."""
    try:  # runs of the same setups tell by how much they differ by chance
        others = {other.id: other for one in (before, bench) for other in history.same_setup(one)}
    except UserError:  # a history that can't be read
        others = {}
    comparison = compare_benches(before, bench, [with_figures(other) for other in others.values()])
    changes = changes_between(before, bench)
    return BenchComparison(before=before, comparison=comparison, changes=changes, suspect=suspect(comparison, changes))


def with_figures(bench: Bench) -> Bench:
    """With the figures of its answers, where it broke off before they were made; a sweep's answers are not alike."""
    if bench.figures or bench.protocol == "sweep" or not bench.passes:
        return bench
    known = figures_of(bench.passes)
    notes = (*bench.notes, *known.notes)
    return msgspec.structs.replace(bench, figures=known.figures, samples=known.samples, notes=notes)


def export(bench: Bench, path: str, form: Form = "unslow") -> None:
    """Write it to a file, whole or not at all; UserError where that can't be done."""
    write_file((dump_stored(bench) if form == "unslow" else render_llama_bench(bench).encode()) + b"\n", path)


def earlier_in_history(case: CaseView, history: History | None = None) -> Fact[Earlier]:
    """For `run.earlier`: nothing is measured for it, both sides are benchmarks that are kept."""
    history = history or default_history()
    like = Bench(
        id="", unslow_version=__version__, taken_at="", seconds=0.0, protocol="standard",
        runtime=case.runtime.name.value_or(""), model=case.model.name.value_or(""), machine=mark_of(case.machine),
    )  # fmt: skip
    try:
        newest = history.latest(like)
        if newest is None:
            return not_found("no saved benchmark of this model on this machine", _HOW)
        now = with_figures(newest)
        same = history.same_setup(now, _MOST)
        others = [bench for bench in same if bench.runtime_version not in ("", now.runtime_version)]
        if now.runtime_version != case.runtime.version.value_or("") or not others:
            return not_found("this machine has no benchmarks of two runtime versions", _HOW)
        found = compared_to(now, with_figures(others[0]), history)
    except UserError as error:
        return failed_fact(error.message, error.hint)
    return earlier_of(found.before, now, found.comparison, found.changes)
