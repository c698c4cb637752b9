"""A change as its user meets it: its diff, the question before it, the journal, and how it is undone."""

import difflib
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from unslow import __version__
from unslow.act.changes import Changes, Edit
from unslow.act.disk import Disk, read_whole
from unslow.act.journal import Journal, Journals, default_folder
from unslow.act.ollama import Ollama
from unslow.commands.apply import UndoRequest
from unslow.commands.diagnose.target import as_url, check_url
from unslow.facts.commands import Place, parse_line
from unslow.facts.errors import UserError
from unslow.facts.masking import SHOWN_KEY, without_keys
from unslow.look.gguf_server_flags import FLAGS, find_flags
from unslow.look.kernel.processors import parse_process_time
from unslow.look.system import LookError, System, read_text
from unslow.look.system.live import LiveSystem
from unslow.think.change import ChangeShown, DamagedShown, FileShown, UndoReport

_NAME = r"(?![A-Z0-9_]{0,99}_FILE\s*[=:])[A-Z0-9_]{0,99}(?:KEY|TOKEN|SECRET|PASSW)[A-Z0-9_]{0,99}"
"""Of a variable that holds a key, and not the name of a file with one."""
_SECRET = [word for flag in FLAGS.values() if flag.secret for word in flag.spellings]
_FLAGS = "|".join(re.escape(word).replace(r"\-", "[-_]") for word in _SECRET)  # llama.cpp takes underscores for dashes
_BARE = r"(?:\\[^\n]|[^\s\"'\\,\]]|,(?=[^\s\"'\]]))"
_WORD = rf"(\"(?:[^\"\\\n]|\\.)*\"?{_BARE}*|'[^'\n]*'?{_BARE}*|{_BARE}+)"
"""A word as a shell or a list has it: quoted, or up to a blank."""
_QUOTED = re.compile(rf"(?i)(?<=([\"']))((?:{_FLAGS}|\b{_NAME})=)([^\n]*?)(?=\1)")
_ASSIGNED = re.compile(rf"(?i)(\b{_NAME}\s*[=:]\s*){_WORD}")
_FLAGGED = re.compile(rf"(?<![\w-])((?:{_FLAGS})(?![\w-])\\?[\"']?(?:=|[\s,\\+-]+)){_WORD}")
"""A flag and its key, also where each stands on a line of its own."""
_NO_END = "\\ No newline at end of file\n"


def ask_user(question: str, *, yes: bool) -> bool:
    """Whether it may be done; UserError where nobody can be asked."""
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise UserError("no terminal to confirm on; nothing was changed", "review the change, then add --yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def system_for(target: str | None, hosts: tuple[str, ...] = ()) -> LiveSystem:
    """This machine, and the host that the user names."""
    url = as_url(target) if target else None
    named = urlsplit(check_url(url)).hostname if url else None
    return LiveSystem((*hosts, *((named,) if named else ())))


def shown_edit(edit: Edit, command: Sequence[str] = ()) -> FileShown:
    """A file and what changes in it, without what nobody shall see of the command line."""
    keys = [key for flag in find_flags(command) if FLAGS[flag.name].secret for key in flag.value.split(",")]
    diff = shown_diff(edit.before, edit.after, edit.path, keys)
    return FileShown(path=edit.path, is_new=edit.before is None, diff=diff)


def shown_diff(before: bytes | None, after: bytes | None, path: str, keys: Sequence[str] = ()) -> str:
    """The lines that differ, with three around them."""
    old, new = (_lines(data) for data in (before, after))
    names = ("/dev/null" if before is None else path, "/dev/null" if after is None else path)
    text = "".join(difflib.unified_diff(old, new, *names))
    found: list[str] = []  # the keys after flags of the whole texts: of a diff, the flag itself may be left out
    for match in (match for lines in (old, new) for match in _FLAGGED.finditer("".join(lines))):
        word = match[2].strip("\"'\\")
        if not word.startswith("$"):
            found += (word, *word.split(","))
    text = _QUOTED.sub(rf"\g<2>{SHOWN_KEY}", text)
    for secret in (_ASSIGNED, _FLAGGED):
        text = secret.sub(rf"\g<1>{SHOWN_KEY}", text)
    return without_keys(text, *keys, *found).rstrip("\n")


def _lines(data: bytes | None) -> list[str]:
    lines = (data or b"").decode("utf-8", "replace").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1:] = [f"{lines[-1]}\n{_NO_END}"]
    return lines


def check_in_force(journals: Journals, process: str) -> None:
    """UserError where a file was changed for this very process: it still runs with what was there before."""
    for journal in reversed(journals.all()) if process else ():
        if journal.process == process and journal.files and journal.state in ("written", "done"):
            shell = " && ".join(line for line in journal.then if parse_line(line).place is Place.SHELL)
            restart = shell or ", ".join(parse_line(line).text for line in journal.then) or "restart the server"
            why = f"change {journal.id} ({journal.what}) is not active yet: the server has not been restarted since"
            raise UserError(why, f"{restart}; or undo it: {undo_line(journals, journal.id)}")


def process_of(system: System, pid: int) -> str:
    """A process as no other is: by its id and when it was started; empty where that is not to be seen."""
    try:
        seen = parse_process_time(read_text(system, f"/proc/{pid}/stat"))
    except LookError:
        return ""
    return f"{pid} {seen.started_ticks}" if seen else ""


def undo_line(journals: Journals, change: str) -> str:
    """What takes a change back, to type."""
    where = [] if journals.folder == default_folder() else ["--journal", str(journals.folder)]
    return shlex.join(["unslow", "undo", change, *where])


def list_changes(request: UndoRequest) -> UndoReport:
    """Every change, the newest first."""
    journals = journals_at(request.journal, Disk())
    shown = tuple(_change_shown(journal) for journal in reversed(journals.all()))
    damaged = tuple(DamagedShown(id=one.id, because=one.why) for one in reversed(journals.damaged_journals()))
    return UndoReport(
        unslow_version=__version__, outcome="listed", changes=shown, damaged=damaged, journal=str(journals.folder)
    )


def would_undo(system: System, request: UndoRequest) -> UndoReport:
    """What would be taken back, after mending what was stopped in the middle."""
    with _open_journals(system, request) as (journals, changes, journal, mended):
        if journal is None:
            return _nothing(journals, mended)
        foreign = []
        try:
            for name, step in changes.foreign(journal):
                diff = "a different model now has that name"
                if step is not None:
                    diff = shown_diff(journals.read_copy(journal.id, f"after-{step}"), _now(name), name)
                foreign.append(FileShown(path=name, diff=diff))
        except LookError as error:
            raise UserError(error.why, "nothing was changed") from error
    files = []
    for number, file in enumerate(journal.files):
        diff = shown_diff(_now(file.path), journals.read_copy(journal.id, f"before-{number}"), file.path)
        files.append(FileShown(path=file.path, is_new=file.before is None, diff=diff))
    return UndoReport(
        unslow_version=__version__,
        outcome="would_undo",
        changes=(_change_shown(journal),),
        files=tuple(files),
        foreign=tuple(foreign),
        mended=mended,
        journal=journals.place(journal.id),
    )


def undone(system: System, request: UndoRequest) -> UndoReport:
    """Take it back; UserError where somebody else has changed it since, unless that is forced."""
    with _open_journals(system, request) as (journals, changes, journal, mended):
        if journal is None:
            return _nothing(journals, mended)
        done = changes.undo(journal, force=request.force)
    return UndoReport(
        unslow_version=__version__, outcome="undone", changes=(_change_shown(done),), mended=mended,
        journal=journals.place(done.id),
    )  # fmt: skip


@contextmanager
def _open_journals(
    system: System, request: UndoRequest
) -> Iterator[tuple[Journals, Changes, Journal | None, tuple[str, ...]]]:
    """The journals, locked; what makes changes; the change that is meant; and what was mended first."""
    disk = Disk()
    journals = journals_at(request.journal, disk)
    changes = Changes(journals, disk, Ollama(system, disk, request.api_key))
    with journals.lock():
        mended = tuple(changes.recover())
        yield journals, changes, _find_change(journals, request.change), mended


def _find_change(journals: Journals, change: str | None) -> Journal | None:
    """The change of an id, or the newest that is not taken back; None where there is none, or it is already.

    UserError where that one can't be read: an older one in its place is not what was asked for.
    """
    made, damaged = journals.all(), journals.damaged_journals()
    if change is None:
        newest = next((journal for journal in reversed(made) if journal.state != "undone"), None)
        if damaged and damaged[-1].id > (newest.id if newest else ""):
            raise UserError(f"the newest change cannot be undone: {damaged[-1].why}", "name another: unslow undo ID")
        return newest
    found = [journal for journal in made if journal.id.startswith(change)]
    unread = [one for one in damaged if one.id.startswith(change)]
    if unread and not found:
        raise UserError(f"that change cannot be undone: {unread[0].why}", "restore it by hand from the files there")
    if len(found) != 1 or unread:
        count = len(found) + len(unread)
        raise UserError(f"{count or 'no'} changes match the id {change!r}", "`unslow undo --list` shows them")
    return found[0] if found[0].state != "undone" else None


def _nothing(journals: Journals, mended: tuple[str, ...]) -> UndoReport:
    return UndoReport(unslow_version=__version__, outcome="nothing", mended=mended, journal=str(journals.folder))


def _now(path: str) -> bytes | None:
    try:
        return read_whole(path)
    except (OSError, ValueError):  # not a file any more
        return None


def _change_shown(journal: Journal) -> ChangeShown:
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


def journals_at(folder: str | None, disk: Disk) -> Journals:
    """Where changes are written down: where the user says, else where state is kept."""
    return Journals(Path(folder).expanduser().absolute() if folder else default_folder(), disk)


def hosts_of(request: UndoRequest) -> tuple[str, ...]:
    """The hosts that the user named when models were made there."""
    made = journals_at(request.journal, Disk()).all()
    return tuple({urlsplit(model.url).hostname or "" for journal in made for model in journal.models})
