"""Find the running runtimes, measure them and say why they are slow.

TARGET is a URL, a process id, a snapshot file or a recording folder; without one, this machine. With no runtime
running, the embedded engine is measured on a synthetic model. A busy server is only observed. It makes the measurement
that settles most, until none is worth its time; Ctrl-C ends that and prints the report so far.

examples:
  unslow
  unslow http://127.0.0.1:8080 --goal 20
  unslow 4242 --passive
  unslow diagnose seen.json --json
  unslow diagnose --record seen/      also save the raw responses; `unslow diagnose seen/` gives the same report
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._formats import ANY_TARGET, FORMATS_TEXT, Keeping
from unslow.commands._output import Progress
from unslow.commands._request import Option, function_of
from unslow.facts.snapshot import Snapshot

if TYPE_CHECKING:
    from unslow.think.report import Report


class DiagnoseRequest(Keeping, frozen=True, kw_only=True):
    """Why inference is slow here, proved, and what this hardware should give.

    Without `passive` it sends a few prompts to the server; a busy one is only observed. With nothing running, it
    measures the embedded engine on a synthetic model. Ctrl-C stops measuring and returns the report so far; a second
    one is a KeyboardInterrupt.
    """

    target: Annotated[
        str | Snapshot | None,
        Option("URL, process id, snapshot or recording folder", metavar="TARGET", kind=ANY_TARGET, positional=True),
    ] = None  # type: ignore[assignment]  # a program may also hand over what it collected
    format: Annotated[str, Option(FORMATS_TEXT, metavar="FORMAT", only="cli", short=("--json", "json"))] = "terminal"
    all: Annotated[bool, Option("also list ruled-out and undetermined causes", only="cli")] = False
    quiet: Annotated[bool, Option("do not print progress", "-q", only="cli")] = False


def answer(request: DiagnoseRequest, progress: Progress) -> "Report":
    """The diagnosis."""
    from unslow.commands._command_lines import with_fix_commands
    from unslow.commands.diagnose.look import diagnose_target
    from unslow.commands.diagnose.request import resolve_request, with_wish
    from unslow.think.judge.judge import diagnose as judge

    if not isinstance(request.target, Snapshot):
        return diagnose_target(resolve_request(request), progress).report
    snapshot = with_wish(request.target, request)
    return with_fix_commands(judge(snapshot), snapshot)


def run(request: DiagnoseRequest) -> int:
    """Diagnose and show."""
    from unslow.commands._formats import check_format, exit_status, render
    from unslow.commands._output import ProgressBar, color, width, write

    check_format(request.format)
    with ProgressBar(quiet=request.quiet) as progress:
        report = answer(request, progress)
    write(render(report, request.format, width=width(), color=color(), everything=request.all))
    return exit_status(report)


diagnose = function_of(DiagnoseRequest, answer)
