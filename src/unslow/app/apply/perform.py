"""The change itself, and what makes the server see it."""

import shlex
import subprocess
from collections.abc import Sequence

import msgspec

from unslow import __version__
from unslow.act.changes import Changes
from unslow.act.disk import Disk
from unslow.act.files import file_step
from unslow.act.ollama import Ollama
from unslow.app.apply.journaled import journals_at, undo_line
from unslow.app.apply.prepare import Prepared
from unslow.facts.errors import UserError
from unslow.facts.placed import Place, line_of
from unslow.look.system import System
from unslow.think.change.report import ApplyReport

RESTART_TIMEOUT_S = 300.0
"""A large model is loaded before some units say that they are up."""
_MADE = "the change is made; `unslow undo` takes it back"


def check_allowed(ready: Prepared) -> None:
    """UserError where a file may not be changed: said before somebody is asked, not after."""
    for edit in ready.planned.edits if ready.planned else ():
        file_step(edit)


def performed(
    system: System, ready: Prepared, journal: str | None = None, api_key: str = "", disk: Disk | None = None
) -> ApplyReport:
    """Make the change, after mending what was stopped in the middle; UserError where nothing could be changed."""
    if ready.planned is None:
        return ready.report
    disk = disk or Disk()
    journals = journals_at(journal, disk)
    changes = Changes(journals, disk, Ollama(system, disk, api_key))
    with journals.locked():
        mended = tuple(changes.recover())
        done = changes.apply(ready.planned, system.now(), __version__)
    return msgspec.structs.replace(
        ready.report, outcome="changed", change=done.id, journal=journals.place(done.id), mended=mended,
        undo=undo_line(journals, done.id),
    )  # fmt: skip


def restarted(then: Sequence[str]) -> None:
    """Run what makes the server see the change; UserError where it fails, and the change stays."""
    for line in then:
        if line_of(line).place is not Place.SHELL:
            raise UserError(
                f"this can't be restarted from here: {line}", "the change is made; `unslow undo` takes it back"
            )
        try:
            done = subprocess.run(
                shlex.split(line), capture_output=True, text=True, timeout=RESTART_TIMEOUT_S, check=False
            )
            failure = (done.stderr.strip()[-300:] or f"status {done.returncode}") if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            failure = str(error)
        if failure:
            raise UserError(f"`{line}` failed: {failure}", _MADE)
