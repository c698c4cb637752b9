"""Builds the view: the report, and beside it what each panel draws, or why it can't be drawn and what would help."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.app.diagnose import diagnosed_target
from unslow.app.looking import Looked
from unslow.app.progress import Progress
from unslow.app.read_target import is_live
from unslow.app.request import Request
from unslow.app.view.kept import LastChange, kept_for, last_change_for
from unslow.app.view.panels import Panels, Sources
from unslow.facts.bench import Bench
from unslow.facts.snapshot import Snapshot
from unslow.look.history import History
from unslow.look.system import System
from unslow.look.system.live import LiveSystem
from unslow.think.adapt.remembered import one_judgement
from unslow.think.report import Report, SubjectReport
from unslow.think.verify.report import VerifyReport
from unslow.think.view.report import SubjectView, View


class Seen(NamedTuple):
    """A view, and all that it was made from."""

    view: View
    snapshot: Snapshot
    looked: Looked
    benches: tuple[Bench, ...] = ()


def view_of(
    report: Report,
    snapshot: Snapshot,
    *,
    system: System | None = None,
    benches: Sequence[Bench] = (),
    verified: VerifyReport | None = None,
    last_change: LastChange | None = None,
    ready: bool = False,
) -> View:
    """The view of a report; with a system, files of models may be read; `ready` works out what sliders would say."""
    cases = list(snapshot.cases())
    sources = Sources(snapshot, system, _newest_first(benches), verified, last_change, ready, len(cases) == 1)
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
    case = list(sources.snapshot.cases())[report.number]
    found = Panels(report, case, sources).all()
    return SubjectView(number=number, **found.panels, missing=found.missing)


def _newest_first(benches: Sequence[Bench]) -> tuple[Bench, ...]:
    return tuple(sorted(benches, key=lambda bench: bench.taken_at, reverse=True))


def view_target(
    request: Request,
    progress: Progress,
    *,
    benches: Sequence[Bench] = (),
    verified: VerifyReport | None = None,
    ready: bool = False,
    history: History | None = None,
) -> Seen:
    """Diagnose whatever the request names, and build its view, with what is kept of earlier benchmarks of it."""
    report, looked = diagnosed_target(request, progress)
    return seen_of(
        report, looked, live=is_live(request.target), benches=benches, verified=verified, ready=ready, history=history
    )


def seen_of(
    report: Report,
    looked: Looked,
    *,
    live: bool,
    benches: Sequence[Bench] = (),
    verified: VerifyReport | None = None,
    ready: bool = False,
    history: History | None = None,
) -> Seen:
    """The view of a diagnosis; what is kept here belongs to it where it is of what runs here."""
    snapshot = looked.snapshot
    kept = kept_for(snapshot, history) if live else ()
    known = tuple({bench.id: bench for bench in (*benches, *kept)}.values())
    last_change = None if verified else last_change_for(snapshot, benches, history, live=live)
    view = view_of(
        report,
        snapshot,
        system=LiveSystem() if live else None,
        benches=known,
        verified=verified,
        last_change=last_change,
        ready=ready,
    )
    return Seen(view, snapshot, looked, known)
