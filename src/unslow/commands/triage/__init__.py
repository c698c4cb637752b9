"""Diagnose pasted text: a log, a bug report, `nvidia-smi` or `ollama ps` output.

FILE is a text of any size from any operating system, also a mixture of several outputs; `-` reads standard input. The
report names the runtime and version, judges the text with the same causes as a live machine, and asks for the commands
that would settle what the text leaves open. Nothing is sent anywhere.

examples:
  unslow triage server.log
  pbpaste | unslow triage -
  journalctl -u ollama --no-pager | unslow triage -
  unslow triage report.txt --format markdown
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unslow.commands._formats import FORMATS_TEXT
from unslow.commands._output import Progress, Silent
from unslow.commands._request import Option, Request

if TYPE_CHECKING:
    from unslow.think.report import Report


class TriageRequest(Request, frozen=True, kw_only=True):
    """What a text says about slow inference."""

    file: Annotated[str, Option("text file; - for standard input", metavar="FILE|-", positional=True)]
    format: Annotated[str, Option(FORMATS_TEXT, metavar="FORMAT", short=("--json", "json"))] = "terminal"
    save: Annotated[
        str | None, Option("also write the facts read from the text as a snapshot (masked)", metavar="FILE")
    ] = None
    all: Annotated[bool, Option("also list ruled-out and undetermined causes")] = False
    quiet: Annotated[bool, Option("do not print progress", "-q")] = False


def run(request: TriageRequest) -> int:
    """Read, judge and show."""
    from unslow.commands._formats import check_format, exit_status, render
    from unslow.commands._output import ProgressBar, color, width, write
    from unslow.commands.diagnose.target import save
    from unslow.commands.triage.pasted_text import read_text_source
    from unslow.commands.triage.pasted_text import triage as judge

    check_format(request.format)
    with ProgressBar(quiet=request.quiet) as progress, read_text_source(request.file) as source:
        report, snapshot = judge(source.chunks, source.name, source.follow(progress))
        if request.save:
            save(snapshot, request.save, progress)
    write(render(report, request.format, width=width(), color=color(), everything=request.all))
    return exit_status(report)


def triage(text: str | bytes | Path, *, progress: Progress | None = None) -> "Report":
    """What a text tells: a log, a bug report, a command line, `nvidia-smi`, `ollama ps`, in any mixture.

    text: the text itself, or the path of a file of any size
    progress: is told how far the reading is; None for silence
    """
    from unslow.commands.triage.pasted_text import read_text_source
    from unslow.commands.triage.pasted_text import triage as judge

    if isinstance(text, Path):
        with read_text_source(str(text)) as source:
            return judge(source.chunks, source.name, source.follow(progress or Silent())).report
    chunks: Iterable[bytes] = [text.encode("utf-8", "replace") if isinstance(text, str) else text]
    return judge(chunks, "paste").report
