"""Where a command writes: the report to standard output, its progress to standard error."""

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO, TypeVar

from unslow.facts.errors import UserError

if TYPE_CHECKING:
    from unslow.show.console import ReportKind

R = TypeVar("R")
_BAR_WIDTH = 16
_COUNTDOWN = re.compile(r"^\d+ s left at most: ")
_FALLBACK_WIDTH, _NARROWEST, _WIDEST = 100, 40, 120
_ASCII = str.maketrans("█▓▒░■✓✗×→·µ", "#%+.*+xx>-u")


class Progress(Protocol):
    """Where progress goes."""

    def say(self, text: str) -> None:
        """A line that stays."""
        ...

    def step(self, text: str, share: float) -> None:
        """What is being done now, and how much of it is done."""
        ...


class Silent:
    """Says nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def step(self, text: str, share: float) -> None:
        """Nothing."""


def write(text: str) -> None:
    """Write to standard output; UserError where nothing can be written there."""
    if sys.stdout is None:
        raise UserError("no standard output to write to", "redirect it to a file")
    try:
        try:
            sys.stdout.write(text + "\n")
        except UnicodeEncodeError:  # a terminal or pipe without UTF-8
            sys.stdout.write(text.translate(_ASCII).encode("ascii", "replace").decode() + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter tries again at its end
        raise UserError(f"standard output: {error.strerror}", "is the disk full?") from error


def write_file(data: bytes, path: str) -> None:
    """Whole or not at all: whoever opens it meanwhile sees the one before; UserError where it can't be written."""
    target = Path(os.path.realpath(path))  # a link stays a link
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)  # a device or a pipe is written to, never replaced
        else:
            part = target.with_name(f".{target.name}.part")
            try:
                part.write_bytes(data)
                part.replace(target)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "name a writable file") from error


def show_answer(request: Any, render: "ReportKind[R]", answer: Callable[[Any, "ProgressBar"], R], **more: Any) -> R:
    """Answer a request and write the report in its format; `more` is for the renderer."""
    render.check_format(request.format)
    with ProgressBar(quiet=request.quiet) as progress:
        report = answer(request, progress)
    write(render(report, request.format, width=width(), color=color(), **more))
    return report


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def width() -> int:
    """Columns of the terminal, or what COLUMNS says; a pipe without it gets a hundred."""
    wanted = os.environ.get("COLUMNS", "")
    if _is_terminal(sys.stdout) or (wanted.isdecimal() and int(wanted)):
        return min(_WIDEST, max(_NARROWEST, shutil.get_terminal_size((_FALLBACK_WIDTH, 24)).columns))
    return _FALLBACK_WIDTH


def color() -> bool:
    """Whether standard output shows colours; NO_COLOR is respected."""
    return _is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _safe(text: str) -> str:
    from unslow.show.console import safe_text

    return safe_text(text)


class ProgressBar:
    """Says what is being done: a bar on a terminal, a line each elsewhere."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet or sys.stderr is None
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if _is_terminal(sys.stderr) and not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar
            from rich.table import Column

            # what is being done may take two lines of a narrow terminal; all of it is worth reading
            words = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=False), markup=False)
            bar = BarColumn(bar_width=_BAR_WIDTH)
            self._bar = Bar(bar, words, console=Console(stderr=True), transient=True, expand=True)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._quiet:
            return
        text = _safe(text)
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            self._line(text)

    def step(self, text: str, share: float) -> None:
        """What is being done now, and how much of it is done."""
        if self._quiet:
            return
        text = _safe(text)
        if self._bar is None:
            what = _COUNTDOWN.sub("", text)
            if what != self._task:  # one line for each thing done, not for each percent or second of it
                self._task = what
                self._line(f"{text} ..." if share < 1 else text)
            return
        if self._task is None:
            self._task = self._bar.add_task(text, total=1.0)
        self._bar.update(self._task, description=text, completed=share)

    def _line(self, text: str) -> None:
        """A line on standard error; where nobody reads it any more, the work goes on without a word."""
        try:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # none, or a pipe that was closed
            self._quiet = True
