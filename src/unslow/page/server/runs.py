"""The runs that were started: one at a time, the last few kept, each with the lines that it tells the page."""

import secrets
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from unslow.facts.errors import UserError
from unslow.page.html.markup import RunKind
from unslow.show.console import without_controls

RunState = Literal["running", "done", "stopped", "failed"]


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """One line; `events?since=NUMBER` gives those after it."""

    number: int = 0


class ProgressLine(Line, frozen=True, kw_only=True, tag="progress"):
    """The current step, and the share of the run that is done."""

    text: str
    share: float | None = None  # None for a remark that stays, such as how much is sent and to which server


class SampleLine(Line, frozen=True, kw_only=True, tag="sample"):
    """The newest sampled values, by name."""

    at_s: float
    values: dict[str, float]


class PassLine(Line, frozen=True, kw_only=True, tag="pass"):
    """One request was answered."""

    text: str
    tokens_per_s: float | None = None


class PanelLine(Line, frozen=True, kw_only=True, tag="panel"):
    """A panel of the page changed: its new HTML."""

    subject: int
    name: str
    html: str


class DoneLine(Line, frozen=True, kw_only=True, tag="done"):
    """The run ended and the page has a new view; `stopped` if it was ended early."""

    text: str
    stopped: bool = False
    reload: bool = False  # Whether the subjects of the page or their order changed
    anyway: str = ""  # What measuring anyway, with `evict`, would do; empty if nothing prevented the measurement


class ErrorLine(Line, frozen=True, kw_only=True, tag="error"):
    """The run failed."""

    message: str
    hint: str = ""
    anyway: str = ""  # What measuring anyway, with `evict`, would do; empty if that would not help


RunLine = ProgressLine | SampleLine | PassLine | PanelLine | DoneLine | ErrorLine


class RunWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to measure: the subject by its number in the view, None for everything that runs."""

    kind: RunKind
    subject: int | None = None
    quick: bool = False
    evict: bool = False  # Measure even if a running chat then needs a new prefill


class RunShown(msgspec.Struct, frozen=True, kw_only=True):
    """A run and its progress."""

    id: str
    kind: RunKind
    subject: int | None
    state: RunState
    text: str = ""
    share: float = 0.0
    schema: str = "unslow.run/1"


MOST_KEPT = 12  # Runs that can still be asked about
MOST_LINES = 400  # Lines of a run that are kept for whoever comes later
_ENDING_S = 3.0  # For a run to end by itself; what it started ends with this program in any case


class NotThereError(UserError):
    """What was asked for does not exist."""


class BusyError(UserError):
    """It is not available now."""


def bug_error(bug: BaseException) -> UserError:
    """What a page says of a bug, whose traceback goes to the terminal."""
    sys.stderr.write(without_controls("".join(traceback.format_exception(bug))))
    return UserError(f"a bug in unslow: {type(bug).__name__}", "see the terminal for details")


class StartedRun:
    """One run. Its thread writes, any other reads."""

    def __init__(self, wanted: RunWanted) -> None:
        self.id, self.wanted = secrets.token_hex(8), wanted
        self.watchers = 0  # How many streams follow it: pictures are drawn only where there are any
        self.stop_run: Callable[[], None] | None = None  # Ends it early; what was measured until then is kept
        self.is_unwanted = False  # Whether it was stopped, be it before there was anything to stop
        self.thread: threading.Thread | None = None
        self._lines: list[RunLine] = []
        self._state: RunState = "running"
        self._count = 0
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        return self._state != "running"

    def tell(self, line: RunLine) -> None:
        """Add a line; a picture takes the place of the one before it, and so does how far it is."""
        with self._lock:
            self._count += 1
            kept = self._lines
            if isinstance(line, PanelLine):
                place = line.subject, line.name
                kept = [old for old in kept if not (isinstance(old, PanelLine) and (old.subject, old.name) == place)]
            elif isinstance(line, ProgressLine) and line.share is not None:  # remarks stay
                kept = [old for old in kept if not isinstance(old, ProgressLine) or old.share is None]
            self._lines = [*kept[-(MOST_LINES - 1) :], msgspec.structs.replace(line, number=self._count)]
            if isinstance(line, DoneLine):
                self._state = "stopped" if line.stopped else "done"
            elif isinstance(line, ErrorLine):
                self._state = "failed"

    def lines(self, since: int = 0) -> Sequence[RunLine]:
        with self._lock:
            return [line for line in self._lines if line.number > since]

    def status(self) -> RunShown:
        text, share = "", 0.0
        with self._lock:
            for line in self._lines:
                if isinstance(line, ErrorLine):
                    text, share = line.message, 0.0
                elif isinstance(line, DoneLine):
                    text, share = line.text, 1.0
                elif isinstance(line, ProgressLine) and line.share is not None:
                    text, share = line.text, line.share
            kind, subject = self.wanted.kind, self.wanted.subject
            return RunShown(id=self.id, kind=kind, subject=subject, state=self._state, text=text, share=share)

    def stop(self) -> None:
        """End it early; one that is over stays as it is."""
        self.is_unwanted = True  # said first: who sets `stop_run` looks at it afterwards
        if self.stop_run and not self.is_over:
            self.stop_run()


class RunList:
    """All runs of a server."""

    def __init__(self) -> None:
        self._entries: dict[str, StartedRun] = {}
        self._lock = threading.Lock()

    def start(self, wanted: RunWanted, follow: Callable[[StartedRun], None]) -> StartedRun:
        """Begin one in a thread of its own; BusyError while another goes on: two would measure each other."""
        with self._lock:
            if not all(entry.is_over for entry in self._entries.values()):
                raise BusyError("a run is already in progress", "wait for it or stop it")
            entry = StartedRun(wanted)
            self._entries[entry.id] = entry
            for old in list(self._entries)[:-MOST_KEPT]:
                del self._entries[old]
        entry.thread = threading.Thread(target=follow, args=(entry,), name="run", daemon=True)
        entry.thread.start()
        return entry

    def entry(self, name: str) -> StartedRun:
        with self._lock:
            if name in self._entries:
                return self._entries[name]
        raise NotThereError(f"no run {name[:40]!r}", "POST /api/v1/runs starts one")

    def entries(self) -> list[StartedRun]:
        """All that are kept, the newest last."""
        with self._lock:
            return list(self._entries.values())

    @property
    def is_busy(self) -> bool:
        return any(not entry.is_over for entry in self.entries())

    def close(self) -> None:
        for entry in self.entries():
            if not entry.is_over:
                entry.stop()
                if entry.thread:
                    entry.thread.join(_ENDING_S)
