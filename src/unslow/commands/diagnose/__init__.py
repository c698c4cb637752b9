"""Find the running runtimes, measure them, and say why they are slow.

TARGET is a URL, a process id, a snapshot file or a recording folder; without one, this machine. With no runtime
running, the embedded engine is measured on a made-up model. A busy server is only observed. It measures what would
settle most, until nothing is worth its time; Ctrl-C ends that, and gives the report so far.

examples:
  unslow
  unslow http://127.0.0.1:8080 --goal 20
  unslow 4242 --passive
  unslow diagnose seen.json --json
  unslow diagnose --record seen/      also the raw answers; `unslow diagnose seen/` then gives the same report
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._diagnosis_options import ANY_TARGET, EXIT, Keeping, formats_text
from unslow.commands._output import Progress
from unslow.commands._request import Option, function_of
from unslow.facts.snapshot import Snapshot

if TYPE_CHECKING:
    from unslow.think.report import Report


class DiagnoseRequest(Keeping, frozen=True, kw_only=True):
    """Why inference is slow here, proved, and what this hardware should give.

    Without `passive` a few prompts are sent to the server that is found; one that is busy is only observed. With
    nothing running, the embedded engine is measured on a made-up model. Ctrl-C ends the measuring and gives the report
    so far; a second one is a KeyboardInterrupt.
    """

    target: Annotated[
        str | Snapshot | None,
        Option("URL, process id, snapshot or recording folder", metavar="TARGET", kind=ANY_TARGET, positional=True),
    ] = None  # type: ignore[assignment]  # a program may also hand over what it collected
    format: Annotated[str, Option(formats_text(), metavar="FORMAT", only="cli", short=("--json", "json"))] = "terminal"
    all: Annotated[bool, Option("show everything that was ruled out", only="cli")] = False
    quiet: Annotated[bool, Option("don't say what is being done", "-q", only="cli")] = False


def answer(request: DiagnoseRequest, progress: Progress) -> "Report":
    """The diagnosis."""
    from unslow.commands._fix_commands import spelled
    from unslow.commands.diagnose.look import diagnose_target
    from unslow.commands.diagnose.request import resolve_request, with_wish
    from unslow.think.judge.judge import diagnose as judge

    if not isinstance(request.target, Snapshot):
        return diagnose_target(resolve_request(request), progress).report
    snapshot = with_wish(request.target, request)
    return spelled(judge(snapshot), snapshot)


def run(request: DiagnoseRequest) -> int:
    """Diagnose and show."""
    from unslow.commands._formats import check_format, render
    from unslow.commands._output import ProgressBar, color, width, write

    check_format(request.format)
    with ProgressBar(quiet=request.quiet) as progress:
        report = answer(request, progress)
    write(render(report, request.format, width=width(), color=color(), everything=request.all))
    verdicts = [subject.verdict for subject in report.subjects]
    return next((status for verdict, status in EXIT.items() if verdict in verdicts), 3)


diagnose = function_of(DiagnoseRequest, answer)
