"""One file: whether it may be changed, changing it at once, and giving it back what it had."""

import os
import stat
import sys
from collections.abc import Callable
from typing import NamedTuple

from unslow.act.disk import Disk, Looks, digest, looks_of, read_whole
from unslow.act.journal import FileStep
from unslow.facts.errors import UserError

NOTHING = "nothing was changed"
_NEW_FOLDER = 0o755  # as systemctl makes those of drop-ins


class Edit(NamedTuple):
    """A file as it was when the change was shown, and as it shall be; `before` is None where there was none."""

    path: str
    before: bytes | None
    after: bytes
    mode: int = 0o644
    """Of a file that is made."""


def read_for_edit(path: str) -> tuple[str, bytes | None]:
    """The file that a name leads to, and its bytes; UserError where it is none, or may not be read."""
    real = os.path.realpath(path)
    try:
        return real, read_whole(real)
    except (OSError, ValueError) as error:
        raise UserError(_words(real, error), NOTHING) from error


def file_step(edit: Edit) -> FileStep:
    """The edit as a step; UserError where the file is not what it was, or may not be changed."""
    if sys.platform == "win32":
        raise UserError("files are changed on Linux and macOS only", "type the lines of `unslow plan` yourself")
    real, now = read_for_edit(edit.path)
    if now != edit.before:
        raise UserError(f"{real} was changed since the plan was made", f"{NOTHING}: look again with `unslow apply`")
    if now == edit.after:
        raise UserError(f"{real} is already as planned", NOTHING)
    if now is not None:
        _check_file(real)
    folders = _missing_folders(real)
    _check_folder(os.path.dirname(folders[0]) if folders else os.path.dirname(real))
    looks = looks_of(real) if now is not None else Looks(mode=edit.mode)
    after = digest(edit.after) or ""
    return FileStep(path=real, before=digest(now), after=after, looks=looks, folders=folders)


def _check_file(path: str) -> None:
    seen = os.lstat(path)
    if seen.st_nlink > 1:
        raise UserError(
            f"{path} has {seen.st_nlink} names (hard links), and a change would part them", f"{NOTHING}: copy the file"
        )
    if not seen.st_mode & stat.S_IWUSR:
        raise UserError(f"{path} is read-only", f"{NOTHING}: `chmod u+w` it, or type the lines of --dry-run yourself")
    if sys.platform != "win32" and os.geteuid() not in (0, seen.st_uid):
        raise UserError(f"{path} belongs to another user", f"{NOTHING}: run it as that user, or with sudo")


def _check_folder(folder: str) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"{folder} can't be written to", f"{NOTHING}: run it with sudo, or as its owner")


def _missing_folders(path: str) -> tuple[str, ...]:
    """Those that have to be made first, the outermost first."""
    missing: list[str] = []
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return tuple(reversed(missing))


def prepare(disk: Disk, change: str, step: FileStep, before: bytes | None, after: bytes) -> None:
    """Write what will take its place, and what can take that back without asking the disk for room."""
    for folder in step.folders:
        if not os.path.isdir(folder):
            disk.make_folder(folder, _NEW_FOLDER)
    kept = Looks(mode=step.looks.mode, owner=step.looks.owner, group=step.looks.group, attributes=step.looks.attributes)
    disk.write_new(step.beside(change, "new"), after, kept)  # with a time of its own
    if before is not None:
        disk.write_new(step.beside(change, "old"), before, step.looks)


def put(disk: Disk, change: str, step: FileStep) -> None:
    """The new file in the place of the old one; UserError where the old one is no longer that."""
    if digest(read_whole(step.path)) != step.before:
        raise UserError(f"{step.path} was changed by somebody else just now", f"{NOTHING}: look again")
    disk.replace(step.beside(change, "new"), step.path)


def state_of(step: FileStep) -> str:
    """before, after, or else: somebody else's."""
    try:
        now = digest(read_whole(step.path))
    except (OSError, ValueError):
        return "else"
    return "before" if now == step.before else "after" if now == step.after else "else"


def restore(disk: Disk, change: str, step: FileStep, backup: Callable[[], bytes | None]) -> None:
    """What was there before, byte for byte; nothing to do where it is there already."""
    if state_of(step) != "before":
        if step.before is None:
            disk.remove(step.path)
        else:
            _put_back(disk, change, step, backup)
    clean(disk, change, step)
    for folder in reversed(step.folders):
        disk.remove_folder(folder)


def _put_back(disk: Disk, change: str, step: FileStep, backup: Callable[[], bytes | None]) -> None:
    old = step.beside(change, "old")
    data = read_whole(old)
    if digest(data) != step.before or looks_of(old) != step.looks:  # none, or one that was cut short
        data = backup()
        if digest(data) != step.before or data is None:
            raise UserError(
                f"the copy of {step.path} is damaged, so it is left as it is", "it has to be mended by hand"
            )
        disk.remove(old)
        disk.write_new(old, data, step.looks)
    disk.replace(old, step.path)


def clean(disk: Disk, change: str, step: FileStep) -> None:
    """Nothing of ours beside the file."""
    if os.path.isdir(os.path.dirname(step.path)):
        disk.remove(step.beside(change, "new"))
        disk.remove(step.beside(change, "old"))


def _words(path: str, error: Exception) -> str:
    return f"{path}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
