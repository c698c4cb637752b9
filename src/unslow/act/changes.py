"""Changes as a whole and file by file: made, taken back, and after a crash finished or taken back."""

import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import filterfalse
from typing import NamedTuple

import msgspec

from unslow.act.disk import Disk, Looks, digest, looks_of, read_whole
from unslow.act.journal import UNFINISHED, FileStep, Journal, Journals, ModelStep, State
from unslow.act.ollama import Ollama, RefusedRequest
from unslow.facts.errors import UserError
from unslow.look.runtimes.ollama.places import full_name
from unslow.look.system import LookError

NOTHING_CHANGED = "nothing was changed"
_NEW_FOLDER = 0o755  # as systemctl makes those of drop-ins


class Edit(NamedTuple):
    """A file as it was when the change was shown, and as it shall be; `before` is None where there was none."""

    path: str
    before: bytes | None
    after: bytes
    mode: int = 0o644  # Of a file that is made


class PlannedChange(NamedTuple):
    """A change that was shown and shall be made."""

    what: str
    edits: tuple[Edit, ...] = ()
    models: tuple[ModelStep, ...] = ()
    then: tuple[str, ...] = ()
    process: str = ""


class Changes:
    """Makes changes, one at a time; whoever calls holds the lock of the journals."""

    def __init__(self, journals: Journals, disk: Disk, ollama: Ollama) -> None:
        self._journals, self._disk, self._ollama = journals, disk, ollama
        self._may_have_made = False  # Whether a server was asked for a model and did not say no

    def apply(self, planned: PlannedChange, at: str, version: str) -> Journal:
        """Make the change whole; UserError where that is not possible, and then nothing is changed."""
        steps = tuple(file_step(edit) for edit in planned.edits)
        for step in planned.models:
            try:
                there = self._ollama.digests(step.url)
            except LookError as error:
                raise UserError(error.why, NOTHING_CHANGED) from error
            if full_name(step.parent) not in there:
                raise UserError(f"{step.url} has no model {step.parent}", NOTHING_CHANGED)
            if full_name(step.name) in there:
                raise UserError(
                    f"{step.url} already has a model {step.name}, which unslow does not overwrite",
                    "give another name with --name, or undo the change that made it: unslow undo --list",
                )
        journal = Journal(
            unslow_version=version, id=self._journals.new_id(at), at=at, what=planned.what, state="prepared",
            files=steps, models=planned.models, then=planned.then, process=planned.process,
        )  # fmt: skip
        try:
            journal = self._make_change(journal, planned.edits)
        except (OSError, ValueError, LookError, UserError) as error:
            raise self._failure_of(journal, error) from error
        try:
            return self._finish(journal)
        except OSError:  # all is in place, and written down as such: the next run tidies up
            return journal

    def _make_change(self, journal: Journal, edits: Sequence[Edit]) -> Journal:
        self._journals.begin(journal)
        for number, edit in enumerate(edits):
            if edit.before is not None:
                self._journals.keep(journal.id, f"before-{number}", edit.before)
            self._journals.keep(journal.id, f"after-{number}", edit.after)  # to show what others make of it
        journal = self._now(journal, "backed up")
        # what will take its place, and what can take that back without asking the disk for room
        for step, edit in zip(journal.files, edits, strict=True):
            for folder in filterfalse(os.path.isdir, step.folders):
                self._disk.make_folder(folder, _NEW_FOLDER)
            new = msgspec.structs.replace(step.looks, modified_ns=None)  # with a time of its own
            self._disk.write_new(step.beside(journal.id, "new"), edit.after, new)
            if edit.before is not None:
                self._disk.write_new(step.beside(journal.id, "old"), edit.before, step.looks)
        for step in journal.files:
            if digest(read_whole(step.path)) != step.before:
                why = f"{step.path} has just been changed by something else"
                raise UserError(why, f"{NOTHING_CHANGED}: look again")
            self._disk.replace(step.beside(journal.id, "new"), step.path)
        made = []
        for model in journal.models:
            self._may_have_made = True
            try:
                made.append(msgspec.structs.replace(model, digest=self._ollama.create(model)))
            except RefusedRequest:
                self._may_have_made = False
                raise
        return self._now(msgspec.structs.replace(journal, models=tuple(made)), "written")

    def _now(self, journal: Journal, state: State, reason: str = "") -> Journal:
        return self._journals.write(msgspec.structs.replace(journal, state=state, reason=reason))

    def _finish(self, journal: Journal) -> Journal:
        for step in journal.files:
            clean_file(self._disk, journal.id, step)
        return self._now(journal, "done")

    def _failure_of(self, journal: Journal, error: Exception) -> UserError:
        why, hint = _words(error)
        try:
            self._take_back(journal, models=self._may_have_made)
        except (OSError, ValueError, LookError, UserError) as worse:
            where = self._journals.place(journal.id)
            return UserError(
                f"{why}; undoing it failed too: {_words(worse)[0]}",
                f"`unslow undo` tries again; the previous contents are in {where}",
            )
        try:
            self._now(journal, "undone", why)
        except OSError:  # a full disk has no room for that, but for an empty place it has
            with suppress(OSError):  # the next run finds that nothing was changed
                self._journals.forget(journal.id)
        return UserError(why, hint)

    def _take_back(self, journal: Journal, *, models: bool) -> None:
        """What was there before in the place of what we wrote; what somebody else wrote stays."""
        for number, step in reversed(list(enumerate(journal.files))):
            if file_state(step) == "else":
                clean_file(self._disk, journal.id, step)
            else:
                self._restore(journal, number)
        for model in reversed(journal.models if models else ()):
            if self._ollama.created_digest(model):
                self._ollama.delete(model)

    def _restore(self, journal: Journal, number: int) -> None:
        """What was there before, byte for byte; nothing to do where it is there already."""
        step = journal.files[number]
        if file_state(step) != "before":
            if step.before is None:
                self._disk.remove(step.path)
            else:
                old = step.beside(journal.id, "old")
                if digest(read_whole(old)) != step.before or looks_of(old) != step.looks:  # none, or one cut short
                    data = self._journals.read_copy(journal.id, f"before-{number}")
                    if digest(data) != step.before or data is None:
                        hint = "restore it by hand"
                        raise UserError(f"the backup of {step.path} is damaged, so it is left unchanged", hint)
                    self._disk.remove(old)
                    self._disk.write_new(old, data, step.looks)
                self._disk.replace(old, step.path)
        clean_file(self._disk, journal.id, step)
        for folder in reversed(step.folders):
            self._disk.remove_folder(folder)

    def recover(self) -> list[str]:
        """Finish or take back whatever was stopped in the middle; what was done, in words."""
        said = []
        for change in self._journals.ids():
            try:
                journal = self._journals.read(change)
            except UserError as error:
                said.append(f"{error.message}; {error.hint}")
                continue
            if journal is None:
                with suppress(OSError):
                    self._journals.forget(change)
            elif journal.state in UNFINISHED:
                said.append(self._recover_one(journal))
        return said

    def _recover_one(self, journal: Journal) -> str:
        name = f"change {journal.id} ({journal.what})"
        try:
            is_whole = journal.state == "written" or (
                journal.state == "backed up"
                and all(file_state(step) == "after" for step in journal.files)
                and all(self._ollama.created_digest(model) for model in journal.models)
            )
            if is_whole:
                models = tuple(
                    model if model.digest else msgspec.structs.replace(model, digest=self._ollama.created_digest(model))
                    for model in journal.models
                )
                self._finish(msgspec.structs.replace(journal, models=models))
                return f"{name} was interrupted after everything was written; it is now complete"
            if journal.state == "undoing":
                self._undo(journal)
                return f"undoing {name} was interrupted; it is now complete, and everything is as before"
            self._take_back(journal, models=journal.state == "backed up")
            self._now(journal, "undone", "it was interrupted")
        except (OSError, ValueError, LookError, UserError) as error:
            return f"{name} was interrupted and cannot be undone yet: {_words(error)[0]}"
        return f"{name} was interrupted; it was undone, and everything is as before"

    def foreign(self, journal: Journal) -> list[tuple[str, int | None]]:
        """Files with their numbers, and models, that are no longer as left; LookError where a server does not say."""
        changed: list[tuple[str, int | None]] = [
            (step.path, number) for number, step in enumerate(journal.files) if file_state(step) == "else"
        ]
        for model in journal.models:
            there = self._ollama.digests(model.url).get(full_name(model.name), "")
            if there and there != model.digest:
                changed.append((model.name, None))
        return changed

    def undo(self, journal: Journal, *, force: bool = False) -> Journal:
        """What was there before; with `force` also over what somebody else has made of a file, which is kept."""
        if journal.state == "undone":
            return journal
        try:
            self._check_foreign(journal, force=force)
            return self._undo(self._now(msgspec.structs.replace(journal, forced=force), "undoing"))
        except (OSError, ValueError, LookError) as error:
            raise UserError(_words(error)[0], "nothing is lost: `unslow undo` tries again") from error

    def _check_foreign(self, journal: Journal, *, force: bool) -> None:
        changed = self.foreign(journal)
        if changed and not force:
            names = ", ".join(name for name, _ in changed)
            raise UserError(
                f"{names} was changed by something else since, so it is left unchanged",
                "undo later changes to it first (unslow undo --list), or use --force, which keeps a copy",
            )

    def _undo(self, journal: Journal) -> Journal:
        self._check_foreign(journal, force=journal.forced)
        for _, number in self.foreign(journal):
            if number is not None:
                theirs = read_whole(journal.files[number].path)
                if theirs is not None:
                    self._journals.keep(journal.id, f"theirs-{number}", theirs)
                self._restore(journal, number)
        self._take_back(journal, models=True)
        return self._now(journal, "undone", "asked for")


def file_step(edit: Edit) -> FileStep:
    """The edit as a step; UserError where the file is not what it was, or may not be changed."""
    if sys.platform == "win32":
        raise UserError("unslow changes files on Linux and macOS only", "run the commands of `unslow plan` yourself")
    real, now = read_for_edit(edit.path)
    if now != edit.before:
        hint = f"{NOTHING_CHANGED}: look again with `unslow apply`"
        raise UserError(f"{real} was changed since the plan was made", hint)
    if now == edit.after:
        raise UserError(f"{real} is already as planned", NOTHING_CHANGED)
    looks = Looks(mode=edit.mode)
    if now is not None:
        seen = os.lstat(real)
        if seen.st_nlink > 1:
            raise UserError(
                f"{real} has {seen.st_nlink} hard links, and a change would separate them",
                f"{NOTHING_CHANGED}: copy the file",
            )
        if not seen.st_mode & stat.S_IWUSR:
            hint = f"{NOTHING_CHANGED}: `chmod u+w` it, or run the commands of --dry-run yourself"
            raise UserError(f"{real} is read-only", hint)
        if os.geteuid() not in (0, seen.st_uid):
            raise UserError(f"{real} belongs to another user", f"{NOTHING_CHANGED}: run it as that user, or with sudo")
        looks = looks_of(real)
    folder, missing = os.path.dirname(real), list[str]()
    while not os.path.isdir(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"{folder} is not writable", f"{NOTHING_CHANGED}: run it with sudo, or as its owner")
    return FileStep(path=real, before=digest(now), after=digest(edit.after) or "", looks=looks, folders=tuple(missing))


def read_for_edit(path: str) -> tuple[str, bytes | None]:
    """The file that a name leads to, and its bytes; UserError where it is none, or may not be read."""
    real = os.path.realpath(path)
    try:
        return real, read_whole(real)
    except (OSError, ValueError) as error:
        why = f"{real}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
        raise UserError(why, NOTHING_CHANGED) from error


def file_state(step: FileStep) -> str:
    """before, after, or else: somebody else's."""
    try:
        now = digest(read_whole(step.path))
    except (OSError, ValueError):
        return "else"
    return "before" if now == step.before else "after" if now == step.after else "else"


def clean_file(disk: Disk, change: str, step: FileStep) -> None:
    """Nothing of ours beside the file."""
    if os.path.isdir(os.path.dirname(step.path)):
        disk.remove(step.beside(change, "new"))
        disk.remove(step.beside(change, "old"))


def _words(error: Exception) -> tuple[str, str]:
    match error:
        case UserError():
            return error.message, error.hint
        case LookError():
            return error.why, NOTHING_CHANGED
        case OSError():
            name = f"{error.filename}: " if error.filename else ""
            return f"{name}{error.strerror or error}", NOTHING_CHANGED
        case _:
            return str(error), NOTHING_CHANGED
