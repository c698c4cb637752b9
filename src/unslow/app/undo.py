"""`unslow undo`: the changes that were made, and one of them taken back."""

from typing import NamedTuple
from urllib.parse import urlsplit

from unslow import __version__
from unslow.act.changes import Changes
from unslow.act.disk import Disk, read_whole
from unslow.act.journal import Journal, Journals
from unslow.act.ollama import Ollama
from unslow.app.apply.diffs import shown_diff
from unslow.app.apply.journaled import journals_at
from unslow.facts.errors import UserError
from unslow.look.system import LookError, System
from unslow.think.change.report import ChangeShown, DamagedShown, FileShown, UndoReport


class UndoRequest(NamedTuple):
    """What the user asks for."""

    change: str | None = None
    journal: str | None = None
    force: bool = False
    api_key: str = ""


def hosts_of(request: UndoRequest) -> tuple[str, ...]:
    """The hosts that the user named when models were made there."""
    made = journals_at(request.journal, Disk()).all()
    return tuple({urlsplit(model.url).hostname or "" for journal in made for model in journal.models})


def listed(request: UndoRequest) -> UndoReport:
    """Every change, the newest first."""
    journals = journals_at(request.journal, Disk())
    shown = tuple(_shown(journal) for journal in reversed(journals.all()))
    damaged = tuple(DamagedShown(id=one.id, because=one.why) for one in reversed(journals.damaged()))
    return UndoReport(
        unslow_version=__version__, outcome="listed", changes=shown, damaged=damaged, journal=str(journals.folder)
    )


def would_undo(system: System, request: UndoRequest, disk: Disk | None = None) -> UndoReport:
    """What would be taken back, after mending what was stopped in the middle."""
    journals, changes = _opened(system, request, disk or Disk())
    with journals.locked():
        mended = tuple(changes.recover())
        journal = _chosen(journals, request.change)
        if journal is None:
            return _nothing(journals, mended)
        foreign = _foreign(journals, changes, journal)
    return UndoReport(
        unslow_version=__version__,
        outcome="would_undo",
        changes=(_shown(journal),),
        files=tuple(_file(journals, journal, number) for number in range(len(journal.files))),
        foreign=foreign,
        mended=mended,
        journal=journals.place(journal.id),
    )


def undone(system: System, request: UndoRequest, disk: Disk | None = None) -> UndoReport:
    """Take it back; UserError where somebody else has changed it since, unless that is forced."""
    journals, changes = _opened(system, request, disk or Disk())
    with journals.locked():
        mended = tuple(changes.recover())
        journal = _chosen(journals, request.change)
        if journal is None:
            return _nothing(journals, mended)
        done = changes.undo(journal, force=request.force)
    return UndoReport(
        unslow_version=__version__, outcome="undone", changes=(_shown(done),), mended=mended,
        journal=journals.place(done.id),
    )  # fmt: skip


def _nothing(journals: Journals, mended: tuple[str, ...]) -> UndoReport:
    """There is no change to take back."""
    return UndoReport(unslow_version=__version__, outcome="nothing", mended=mended, journal=str(journals.folder))


def _opened(system: System, request: UndoRequest, disk: Disk) -> tuple[Journals, Changes]:
    journals = journals_at(request.journal, disk)
    return journals, Changes(journals, disk, Ollama(system, disk, request.api_key))


def _chosen(journals: Journals, change: str | None) -> Journal | None:
    """The change of an id, or the newest that is not taken back; None where there is none, or it is already.

    UserError where that one can't be read: an older one in its place is not what was asked for.
    """
    made, damaged = journals.all(), journals.damaged()
    if change is None:
        newest = next((journal for journal in reversed(made) if journal.state != "undone"), None)
        if damaged and damaged[-1].id > (newest.id if newest else ""):
            raise UserError(f"the newest change can't be taken back: {damaged[-1].why}", "name another: unslow undo ID")
        return newest
    found = [journal for journal in made if journal.id.startswith(change)]
    unread = [one for one in damaged if one.id.startswith(change)]
    if unread and not found:
        raise UserError(f"that change can't be taken back: {unread[0].why}", "mend it by hand from what lies there")
    if len(found) != 1 or unread:
        count = len(found) + len(unread)
        raise UserError(f"{count} changes have the id {change!r}", "`unslow undo --list` shows them")
    return found[0] if found[0].state != "undone" else None


def _foreign(journals: Journals, changes: Changes, journal: Journal) -> tuple[FileShown, ...]:
    try:
        return tuple(_theirs(journals, journal, foreign.name, foreign.number) for foreign in changes.foreign(journal))
    except LookError as error:
        raise UserError(error.why, "nothing was changed") from error


def _theirs(journals: Journals, journal: Journal, name: str, number: int | None) -> FileShown:
    """What somebody else made of what the change left."""
    if number is None:
        return FileShown(path=name, diff="a model of that name is there, and another one than was made")
    left = journals.kept(journal.id, f"after-{number}")
    return FileShown(path=name, diff=shown_diff(left, _now(name), name))


def _file(journals: Journals, journal: Journal, number: int) -> FileShown:
    step, before = journal.files[number], journals.kept(journal.id, f"before-{number}")
    return FileShown(path=step.path, is_new=step.before is None, diff=shown_diff(_now(step.path), before, step.path))


def _now(path: str) -> bytes | None:
    try:
        return read_whole(path)
    except (OSError, ValueError):  # not a file any more
        return None


def _shown(journal: Journal) -> ChangeShown:
    return ChangeShown(
        id=journal.id,
        at=journal.at,
        what=journal.what,
        state=journal.state,
        files=tuple(step.path for step in journal.files),
        models=tuple(step.name for step in journal.models),
        reason=journal.reason,
        then=journal.then,
    )
