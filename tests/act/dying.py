"""Tries every way to die in the middle: a child that ends itself before its n-th change of the disk."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from unslow.act.changes import Changes, PlannedChange
from unslow.act.disk import Disk
from unslow.act.journal import Journal, Journals
from unslow.act.ollama import Ollama
from unslow.look.system.live import LiveSystem

AT = "2026-01-02T03:04:05+00:00"
DIED = 99
Work = Callable[[Callable[[str, str], None]], object]


class Counted:
    """Counts the steps, and does something before one of them."""

    def __init__(self, at: int = -1, deed: Callable[[], None] = lambda: None) -> None:
        self.steps: list[tuple[str, str]] = []
        self._at, self._deed = at, deed

    def __call__(self, what: str, path: str) -> None:
        self.steps.append((what, path))
        if len(self.steps) == self._at:
            self._deed()


def changes_in(folder: Path, before: Callable[[str, str], None] | None = None) -> tuple[Journals, Changes]:
    """The changes that are kept in a folder."""
    disk = Disk(before)
    journals = Journals(folder, disk)
    return journals, Changes(journals, disk, Ollama(LiveSystem(), disk))


def apply_in(folder: Path, planned: PlannedChange, before: Callable[[str, str], None] | None = None) -> Journal:
    journals, changes = changes_in(folder, before)
    with journals.lock():
        changes.recover()
        return changes.apply(planned, AT, "0")


def undo_in(folder: Path, before: Callable[[str, str], None] | None = None, *, force: bool = False) -> Journal:
    journals, changes = changes_in(folder, before)
    with journals.lock():
        changes.recover()
        return changes.undo(journals.all()[-1], force=force)


def recover_in(folder: Path, before: Callable[[str, str], None] | None = None) -> list[str]:
    journals, changes = changes_in(folder, before)
    with journals.lock():
        return changes.recover()


class DiedError(BaseException):
    """Nothing that is done after it reaches the disk, as after a kill."""


class Dying:
    """Dies before a step, and before every one that tidying up would take."""

    def __init__(self, at: int) -> None:
        self._at, self.count = at, 0

    def __call__(self, what: str, path: str) -> None:
        self.count += 1
        if self.count >= self._at:
            raise DiedError


def dies(work: Work, number: int) -> bool:
    """Do the work and die before that step; False where it has fewer."""
    try:
        work(Dying(number))
    except DiedError:
        return True
    return False


def child_dies(work: Work, number: int) -> bool:
    """The same, in a process that ends there and then."""
    pid = os.fork()
    if pid == 0:
        status = 3
        try:
            work(Counted(number, lambda: os._exit(DIED)))
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, DIED), status
    return status == DIED


def steps_until_it_lives(work: Work, die: Callable[[Work, int], bool] = dies) -> Iterator[int]:
    """Do the work and die before step 1, 2, 3 ...; each time the number, until it gets through."""
    number = 1
    while die(work, number):
        yield number
        number += 1


def picture(*roots: Path) -> dict[str, tuple]:
    """Everything in folders: names, kinds, modes, owners, times of files, contents, links."""
    seen: dict[str, tuple] = {}
    for root in roots:
        for path in [root, *sorted(root.rglob("*"))]:
            stat = path.lstat()
            common = (oct(stat.st_mode), stat.st_uid, stat.st_gid)
            if path.is_symlink():
                seen[str(path)] = (*common, str(path.readlink()))
            elif path.is_file():
                seen[str(path)] = (*common, stat.st_mtime_ns, path.read_bytes())
            else:
                seen[str(path)] = common
    return seen
