"""Write the diagnosis with all its pictures into one file, to keep or to attach to an issue.

The page opens from disk, asks nobody for anything, and works without a script. Names of users, keys, prompts, serial
numbers and public addresses are taken out, unless --no-mask is given; names of files stay. TARGET is a URL, a process
id, a snapshot file or a recording folder; without one, this machine, measured as `unslow diagnose` does it. A file of
that name is replaced.

examples:
  unslow report                              writes unslow-report.html
  unslow report -o slow.html --quick
  unslow report seen.json -o issue.md        Markdown for GitHub, by the name of the file
  unslow report --bench before.json --bench after.json
  unslow report http://127.0.0.1:8080 --verify verified.json -o - > page.html

exit status: 0 written, 2 could not run
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._diagnosis_options import Keeping, Looking
from unslow.commands._output import Progress
from unslow.commands._request import Option, function_of

if TYPE_CHECKING:
    from unslow.page.view import View


class ReportRequest(Keeping, frozen=True, kw_only=True):
    """The diagnosis with all its pictures in one file."""

    output: Annotated[
        str | None, Option("where to write; - is standard output (default: unslow-report.html)", "-o", metavar="FILE")
    ] = None
    format: Annotated[
        str | None,
        Option("html, markdown or json (default: by the name of the file, else html)", metavar="FORMAT",
               short=("--json", "json")),
    ] = None  # fmt: skip
    title: Annotated[str | None, Option("what to call it", metavar="TEXT")] = None
    no_mask: Annotated[bool, Option("leave names, paths and addresses in")] = False
    bench: Annotated[tuple[str, ...], Option("with a benchmark's curves; may be repeated", metavar="FILE")] = ()
    verify: Annotated[
        str | None, Option("with before and after: what `unslow verify --json` wrote", metavar="FILE")
    ] = None
    quiet: Annotated[bool, Option("don't say what is being done", "-q")] = False


def run(request: ReportRequest) -> int:
    """Write it."""
    from unslow.commands._output import ProgressBar
    from unslow.page.report import write_report

    with ProgressBar(quiet=request.quiet) as progress:
        write_report(request, progress)
    return 0


class ViewRequest(Looking, frozen=True, kw_only=True):
    """A diagnosis with every number that the page draws: memory, roofline, timeline, curves, before and after.

    It sends what `diagnose` sends. A panel that can't be drawn is None, and `missing` says why.
    """

    ready: Annotated[bool, Option("also work out what each slider of the memory would say, which takes longer")] = False
    masked: Annotated[
        bool, Option("without user names, home folders, hosts and serial numbers, for somebody else to see")
    ] = False


def _view(request: ViewRequest, progress: Progress) -> "View":
    from unslow.commands.diagnose.request import resolve_request
    from unslow.page.build import view_target
    from unslow.page.report import masked_view

    seen = view_target(resolve_request(request), progress, ready=request.ready)
    return masked_view(seen.view, seen.looked) if request.masked else seen.view


view = function_of(ViewRequest, _view, name="view")
