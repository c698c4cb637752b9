"""Builds the view: the report, and beside it what each panel draws or why it can't."""

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import msgspec

from unslow import __version__
from unslow.commands._bench_history import compared_to, with_figures
from unslow.commands._formats import Looking
from unslow.commands._output import Progress
from unslow.commands.diagnose.look import LookResult, diagnose_target
from unslow.commands.diagnose.target import is_live
from unslow.facts.bench import Bench
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot
from unslow.facts.values import Absence, Known, MissingFactError, Unknown
from unslow.look.stored.history import History, default_history
from unslow.look.system import System
from unslow.look.system.http import host_of, is_loopback
from unslow.look.system.live import LiveSystem
from unslow.page.roofline import roofline_view
from unslow.page.speeds import change_of_benches, change_of_verify, depth_curve, speed_rows, users_curve
from unslow.page.timeline import timeline_view
from unslow.page.view import ChangeView, MemoryView, Missing, SubjectView, TimelineView, View
from unslow.think.case.view import CaseView, views_of
from unslow.think.memo import one_judgement
from unslow.think.report import Report, SubjectReport
from unslow.think.speed.calibration import mark_of
from unslow.think.stats.conditions import settings_of
from unslow.think.stats.verification_report import VerifyReport

MOST_KEPT = 20  # Of one setup: the newest ones; older curves are of little use
BUG = "a bug in unslow"


class SeenMachine(NamedTuple):
    """A view, and all that it was made from."""

    view: View
    snapshot: Snapshot
    looked: LookResult
    benches: tuple[Bench, ...] = ()


class Sources(NamedTuple):
    """Everything that the panels of any subject are made from."""

    snapshot: Snapshot
    system: System | None = None  # With one, files of models may be read
    benches: tuple[Bench, ...] = ()
    change: ChangeView | None = None
    ready: bool = False  # Whether to work out what sliders would say
    alone: bool = True  # Whether there is but one subject: then all benchmarks and comparisons are its own


def view_target(
    request: Looking,
    progress: Progress,
    *,
    benches: Sequence[Bench] = (),
    verified: VerifyReport | None = None,
    ready: bool = False,
) -> SeenMachine:
    """Diagnose whatever the request names, and build its view, with what is kept of earlier benchmarks of it."""
    report, looked = diagnose_target(request, progress)
    return build_view(report, looked, live=is_live(request.target), benches=benches, verified=verified, ready=ready)


def build_view(
    report: Report,
    looked: LookResult,
    *,
    live: bool,
    benches: Sequence[Bench] = (),
    verified: VerifyReport | None = None,
    ready: bool = False,
    history: History | None = None,
) -> SeenMachine:
    """The view of a diagnosis; what is kept here belongs to it where it is of what runs here."""
    snapshot = looked.snapshot
    kept = stored_benches(snapshot, history) if live else ()
    known = tuple({bench.id: bench for bench in (*benches, *kept)}.values())
    change = change_of_verify(verified) if verified else last_change(snapshot, benches, history, live=live)
    sources = Sources(snapshot, LiveSystem() if live else None, known, change, ready)
    return SeenMachine(view_of(report, sources), snapshot, looked, known)


def view_of(report: Report, sources: Sources) -> View:
    """The view of a report."""
    snapshot = sources.snapshot
    newest_first = tuple(sorted(sources.benches, key=lambda bench: bench.taken_at, reverse=True))
    sources = sources._replace(benches=newest_first, alone=len(list(views_of(snapshot))) == 1)
    subjects = tuple(_subject(subject, sources, number) for number, subject in enumerate(report.subjects))
    return View(
        unslow_version=report.unslow_version,
        taken_at=snapshot.taken_at,
        machine=report.machine,
        report=report,
        subjects=subjects,
        masked=False,
    )


@one_judgement()
def _subject(report: SubjectReport, sources: Sources, number: int) -> SubjectView:
    case = list(views_of(sources.snapshot))[report.number]
    panels, missing = Panels(report, case, sources).all()
    return SubjectView(number=number, **panels, missing=missing)


class Panels:
    """Draws one subject."""

    def __init__(self, report: SubjectReport, case: CaseView, sources: Sources) -> None:
        self._report, self._case, self._sources = report, case, sources
        self._benches: Sequence[Bench] = sources.benches
        if not sources.alone:  # then those of its model
            model = case.model.name.value_or("").casefold()
            self._benches = [bench for bench in sources.benches if bench.model.casefold() == model]

    def all(self) -> tuple[dict[str, Any], dict[str, Missing]]:
        """Every panel by its name, and why the others are not there."""
        makers: dict[str, Callable[[], Any]] = {
            "memory": self._memory,
            "roofline": lambda: roofline_view(self._case),
            "timeline": self._timeline,
            "depth": lambda: depth_curve(self._case, self._benches),
            "users": lambda: users_curve(self._case, self._benches),
            "change": self._change,
        }
        found = {name: _make_panel(make) for name, make in makers.items()}
        missing = {name: self._missing(name, why) for name, why in found.items() if isinstance(why, Unknown)}
        panels = {name: panel for name, panel in found.items() if not isinstance(panel, Unknown)}
        wish, roofline = self._sources.snapshot.wish, panels.get("roofline")
        told = _make_panel(lambda: speed_rows(self._report, self._case, wish, roofline))
        panels["speeds"] = () if isinstance(told, Unknown) else told
        if isinstance(told, Unknown):
            missing["speeds"] = self._missing("speeds", told)
        elif not told:
            missing["speeds"] = Missing(why="no speed measured or predicted", how_to_get=self._command("unslow"))
        return panels, missing

    def _missing(self, name: str, unknown: Unknown) -> Missing:
        is_failed = self._report.verdict == "failed" and name != "change" and not unknown.why.startswith(BUG)
        why = "the model does not load, so there is nothing to draw" if is_failed else unknown.why
        return Missing(why=why, how_to_get=unknown.how_to_get or self._command("unslow"))

    def _memory(self) -> MemoryView | Unknown:
        from unslow.page.what_if import memory_of  # noqa: PLC0415 (the layouts take a while to import)

        # The files that it names are those of here where it runs on this machine
        is_here = not self._report.url or is_loopback(host_of(self._report.url))
        memory = memory_of(self._sources.system if is_here else None, self._case)
        if isinstance(memory, Unknown):
            return memory
        view = memory.view
        return msgspec.structs.replace(view, ready=memory.ready()) if self._sources.ready else view

    def _timeline(self) -> TimelineView | Unknown:
        seen = self._case.run.telemetry
        own = seen.value.timeline if isinstance(seen, Known) else None
        kept = next(((b, t) for b in self._benches if (t := (b.telemetry.timeline if b.telemetry else None))), None)
        is_newer = kept is not None and kept[0].taken_at > self._sources.snapshot.taken_at
        if own is not None and not is_newer:
            return timeline_view(own, self._case.machine)
        if kept is not None:
            moment = kept[0].taken_at[:16].replace("T", " ")
            return timeline_view(kept[1], self._case.machine, f"From the benchmark of {moment}.")
        if isinstance(seen, Known):
            return Unknown("this snapshot has no samples over time", self._command("unslow"))
        if seen.absence is Absence.NOT_LOOKED:
            return Unknown("the machine was not sampled during a measurement", self._command("unslow"))
        return seen

    def _change(self) -> ChangeView | Unknown:
        if self._sources.change and self._sources.alone:
            return self._sources.change
        why = "no comparison yet: it needs one benchmark before a change and one after"
        return Unknown(why, f"{self._command('unslow bench')} --compare LAST")

    def _command(self, verb: str) -> str:
        url = self._report.url
        return f"{verb} {quote(url)}" if url else verb


def _make_panel(make: Callable[[], Any]) -> Any:
    """A panel, or Unknown: one that breaks does not break the others."""
    try:
        return make()
    except UserError as error:  # impossible numbers
        return Unknown(error.message, error.hint)
    except MissingFactError as missing:
        return missing.unknown
    except Exception as bug:  # noqa: BLE001 (a stored snapshot may say anything)
        place = traceback.extract_tb(bug.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        hint = "please report it and attach the file that `unslow collect` writes"
        return Unknown(f"{BUG}: {type(bug).__name__} at {where}: {str(bug)[:120]}", hint)


def stored_benches(snapshot: Snapshot, history: History | None = None) -> tuple[Bench, ...]:
    """Benchmarks of the same machine, runtime, model and settings, newest first; none where nothing can be read."""
    history = history or default_history()
    found: dict[str, Bench] = {}
    for case in views_of(snapshot):
        try:
            found |= {bench.id: bench for bench in history.same_setup(setup_bench(case), MOST_KEPT)}
        except UserError:  # a history that can't be read costs its curves, and nothing else
            break
    return tuple(sorted(found.values(), key=lambda bench: bench.taken_at, reverse=True))


def last_change(
    snapshot: Snapshot, given: Sequence[Bench], history: History | None = None, *, live: bool = True
) -> ChangeView | None:
    """The last two benchmarks of the one subject: those that were given, else those that are kept; None for several."""
    cases = list(views_of(snapshot))
    if len(cases) != 1:
        return None
    history = history or default_history()
    try:
        told = sorted((bench for bench in map(with_figures, given) if bench.samples), key=lambda bench: bench.taken_at)
        if len(told) < 2 and live:  # noqa: PLR2004 (before and after)
            after = history.latest(setup_bench(cases[0]))
            before = history.latest(after) if after else None
            if before and after and before.taken_at <= after.taken_at:
                told = [with_figures(before), with_figures(after)]
        if len(told) < 2:  # noqa: PLR2004 (before and after)
            return None
        compared = compared_to(told[-1], told[-2], history)
        return change_of_benches(compared.before, told[-1], compared.comparison, compared.changes)
    except UserError:
        return None


def setup_bench(case: CaseView) -> Bench:
    """A benchmark as one of this case would be."""
    return Bench(
        id="",
        unslow_version=__version__,
        taken_at="",
        seconds=0.0,
        protocol="standard",
        runtime=case.runtime.name.value_or("unknown"),
        runtime_version=case.runtime.version.value_or(""),
        model=case.model.name.value_or("unknown"),
        model_bytes=case.model.weights_bytes.value_or(0),
        machine=mark_of(case.machine),
        settings=settings_of(case),
    )
