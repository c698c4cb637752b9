"""The main job: look, measure, judge, spell the fixes."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from unslow.app.looking import Looked, replayed
from unslow.app.looking import look as look_at
from unslow.app.progress import Progress, Silent
from unslow.app.read_target import is_live, read_stored, recorded_diagnosis
from unslow.app.request import Request
from unslow.app.save import save
from unslow.app.spell import spelled
from unslow.facts.errors import UserError
from unslow.facts.masking import keyless
from unslow.facts.snapshot import Snapshot
from unslow.think.judge import diagnose
from unslow.think.report import Report

__all__ = ["Diagnosed", "Request", "diagnose_target", "diagnosed_target", "look"]


class Diagnosed(NamedTuple):
    """A report, and what it was made from."""

    report: Report
    looked: Looked


def diagnose_target(request: Request, progress: Progress) -> Report:
    """The report on whatever the request names."""
    return diagnosed_target(request, progress).report


def diagnosed_target(request: Request, progress: Progress) -> Diagnosed:
    """The same, with what was seen."""
    looked = look_at(request, progress) if is_live(request.target) else _stored(request, progress)
    snapshot = looked.snapshot
    if request.goal is not None or request.context is not None:
        snapshot = msgspec.structs.replace(snapshot, wish=request.wish)
    if request.save:
        save(snapshot, request.save, progress)
    try:
        report = diagnose(snapshot)
    except Exception as bug:
        keep = request.save or "unslow-bug.json"
        save(snapshot, keep, progress)
        bug.add_note(f"This is a bug in unslow. Please report it and attach {keep}, which holds what was seen, masked.")
        raise
    return Diagnosed(noted(spelled(report, snapshot), looked), looked._replace(snapshot=snapshot))


def _stored(request: Request, progress: Progress) -> Looked:
    if request.record:
        raise UserError("--record keeps what is seen of something that runs", "leave out the stored TARGET")
    recording = recorded_diagnosis(Path(str(request.target)))
    if recording:
        progress.step(f"going through the recording {request.target}", 0.0)
    looked = replayed(recording, Silent()) if recording else Looked(read_stored(str(request.target)))
    return looked._replace(snapshot=keyless(looked.snapshot))


def noted(report: Report, looked: Looked) -> Report:
    """The report with what each reader must know of how its subject was measured."""
    notes = dict(enumerate(looked.notes))
    subjects = tuple(
        msgspec.structs.replace(subject, notes=(*notes.get(subject.number, ()), *subject.notes))
        for subject in report.subjects
    )
    return msgspec.structs.replace(report, subjects=subjects)


def look(request: Request, progress: Progress) -> Snapshot:
    """The snapshot of what runs, measured. It holds no key."""
    return look_at(request, progress).snapshot
