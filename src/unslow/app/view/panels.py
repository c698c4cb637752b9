"""The panels of one subject, each there or with the reason why not."""

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import msgspec

from unslow.app.view.kept import LastChange
from unslow.app.view.masking import host_of
from unslow.facts.bench import Bench
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.telemetry import Timeline
from unslow.facts.values import Absence, Known, MissingFactError, Unknown
from unslow.look.system import System
from unslow.look.system.http import is_loopback
from unslow.think.report import SubjectReport
from unslow.think.verify.report import VerifyReport
from unslow.think.view.change import change_of_benches, change_of_verify
from unslow.think.view.curves import depth_curve, users_curve
from unslow.think.view.report import ChangeView, MemoryView, Missing, RooflineView, SpeedRow, TimelineView
from unslow.think.view.roofline import roofline
from unslow.think.view.speeds import speeds
from unslow.think.view.timeline import timeline_view

BUG = "a bug in unslow"
_REPORT_IT = "please report it, with what `unslow snapshot` writes"
_LONGEST_SAID = 120
_FAILED = "the model does not load, so nothing runs that could be drawn"


class Sources(NamedTuple):
    """Everything that the panels of any subject are made from."""

    snapshot: Snapshot
    system: System | None = None
    benches: tuple[Bench, ...] = ()
    """The newest first."""
    verified: VerifyReport | None = None
    last_change: LastChange | None = None
    ready: bool = False
    alone: bool = True
    """Whether there is but one subject: then all benchmarks and comparisons are its own."""


class Built(NamedTuple):
    """The panels that are there, and why the others are not."""

    panels: dict[str, Any]
    missing: dict[str, Missing]


class Panels:
    """Draws one subject."""

    def __init__(self, report: SubjectReport, case: Case, sources: Sources) -> None:
        self._report, self._case, self._sources = report, case, sources
        self._benches = _own(case, sources)

    def all(self) -> Built:
        """Every panel by its name."""
        makers: dict[str, Callable[[], Any]] = {
            "memory": self._memory,
            "roofline": lambda: roofline(self._case),
            "timeline": self._timeline,
            "depth": lambda: depth_curve(self._case, self._benches),
            "users": lambda: users_curve(self._case, self._benches),
            "change": self._change,
        }
        found = {name: _made(make) for name, make in makers.items()}
        missing = {name: self._missing(name, why) for name, why in found.items() if isinstance(why, Unknown)}
        panels = {name: panel for name, panel in found.items() if not isinstance(panel, Unknown)}
        told = _made(lambda: self._speeds(panels.get("roofline")))
        panels["speeds"] = () if isinstance(told, Unknown) else told
        if isinstance(told, Unknown):
            missing["speeds"] = self._missing("speeds", told)
        elif not told:
            missing["speeds"] = Missing(why="no speed is known", how_to_get=self._command("unslow"))
        return Built(panels, missing)

    def _speeds(self, drawn: RooflineView | None) -> tuple[SpeedRow, ...]:
        return speeds(self._report, self._case, self._sources.snapshot.wish, drawn)

    def _missing(self, name: str, unknown: Unknown) -> Missing:
        is_failed = self._report.verdict == "failed" and name != "change" and not unknown.why.startswith(BUG)
        why = _FAILED if is_failed else unknown.why
        return Missing(why=why, how_to_get=unknown.how_to_get or self._command("unslow"))

    def _memory(self) -> MemoryView | Unknown:
        from unslow.app.view.what_if import memory_of  # noqa: PLC0415 (the layouts take a while to import)

        memory = memory_of(self._sources.system if self._is_here() else None, self._case)
        if isinstance(memory, Unknown):
            return memory
        view = memory.view()
        return msgspec.structs.replace(view, ready=memory.ready()) if self._sources.ready else view

    def _is_here(self) -> bool:
        """Whether it runs on this machine, so that the files it names are those of here."""
        return not self._report.url or is_loopback(host_of(self._report.url))

    def _timeline(self) -> TimelineView | Unknown:
        seen = self._case.run.telemetry
        own = seen.value.timeline if isinstance(seen, Known) else None
        kept = next(((b, t) for b in self._benches if (t := _timeline_of(b))), None)
        is_newer = kept is not None and kept[0].taken_at > self._sources.snapshot.taken_at
        if own is not None and not is_newer:
            return timeline_view(own, self._case.machine)
        if kept is not None:
            return timeline_view(kept[1], self._case.machine, f"Of the benchmark of {_moment(kept[0])}.")
        if isinstance(seen, Known):
            return Unknown("the samples over time were not kept in this snapshot", self._command("unslow"))
        if seen.absence is Absence.NOT_LOOKED:
            return Unknown("nothing was measured while the machine was watched", self._command("unslow"))
        return seen

    def _change(self) -> ChangeView | Unknown:
        sources = self._sources
        if sources.verified is not None and sources.alone:
            return change_of_verify(sources.verified)
        if sources.last_change is not None and sources.alone:
            compared, after = sources.last_change
            return change_of_benches(compared.before, after, compared.comparison, compared.changes)
        why = "nothing was compared yet: that takes a benchmark before a change, and one after it"
        return Unknown(why, f"{self._command('unslow bench')} --compare LAST")

    def _command(self, verb: str) -> str:
        url = self._report.url
        return f"{verb} {quote(url)}" if url else verb


def _made(make: Callable[[], Any]) -> Any:
    """A panel; one that breaks says so in its own place, and takes nothing else with it."""
    try:
        return make()
    except UserError as error:  # numbers that can't be
        return Unknown(error.message, error.hint)
    except MissingFactError as missing:
        return missing.unknown
    except Exception as bug:  # noqa: BLE001 (a stored snapshot may say anything)
        place = traceback.extract_tb(bug.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return Unknown(f"{BUG}: {type(bug).__name__} at {where}: {str(bug)[:_LONGEST_SAID]}", _REPORT_IT)


def _moment(bench: Bench) -> str:
    return bench.taken_at[:16].replace("T", " ")


def _timeline_of(bench: Bench) -> Timeline | None:
    return bench.telemetry.timeline if bench.telemetry else None


def _own(case: Case, sources: Sources) -> Sequence[Bench]:
    """The benchmarks of this subject: of its model, where there are several."""
    if sources.alone:
        return sources.benches
    model = case.model.name.value_or("").casefold()
    return [bench for bench in sources.benches if bench.model.casefold() == model]
