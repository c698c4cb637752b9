"""The changes that were made before: where they are written down, and which of them a server has not seen yet."""

import shlex
from pathlib import Path

from unslow.act.disk import Disk
from unslow.act.journal import Journal, Journals, default_folder
from unslow.facts.errors import UserError
from unslow.facts.placed import Place, line_of
from unslow.look.kernel.cpu_time import parse_process_time
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text


def journals_at(folder: str | None, disk: Disk) -> Journals:
    """Where changes are written down: where the user says, else where state is kept."""
    return Journals(Path(folder).expanduser().absolute() if folder else default_folder(), disk)


def process_of(system: System, pid: int) -> str:
    """A process as no other is: by its id and when it was started; empty where that is not to be seen."""
    try:
        seen = parse_process_time(read_text(system, f"/proc/{pid}/stat"))
    except LookError:
        return ""
    return f"{pid} {seen.started_ticks}" if seen else ""


def check_in_force(journals: Journals, process: str) -> None:
    """UserError where a file was changed for this very process: it still runs with what was there before."""
    for journal in reversed(journals.all()) if process else ():
        if journal.process == process and journal.files and journal.state in ("written", "done"):
            raise UserError(
                f"change {journal.id} ({journal.what}) is not in force yet: the server was not started again since",
                f"{_restart(journal)}; or take it back: {undo_line(journals, journal.id)}",
            )


def undo_line(journals: Journals, change: str) -> str:
    """What takes a change back, to type."""
    where = [] if journals.folder == default_folder() else ["--journal", str(journals.folder)]
    return shlex.join(["unslow", "undo", change, *where])


def _restart(journal: Journal) -> str:
    shell = [line for line in journal.then if line_of(line).place is Place.SHELL]
    return " && ".join(shell) or ", ".join(line_of(line).text for line in journal.then) or "start it again"
