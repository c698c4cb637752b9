"""Write the diagnosis to one self-contained file, to keep or to attach to an issue.

The page opens from disk, makes no requests, and works without JavaScript. User names, keys, prompts, serial numbers and
public addresses are masked, unless --no-mask is given; file names stay. TARGET is a URL, a process id, a snapshot file
or a recording folder; without one, this machine, measured as by `unslow diagnose`. An existing file is overwritten.

examples:
  unslow report                              writes unslow-report.html
  unslow report -o slow.html --quick
  unslow report seen.json -o issue.md        Markdown for GitHub, by the name of the file
  unslow report --bench before.json --bench after.json
  unslow report http://127.0.0.1:8080 --verify verified.json -o - > page.html

exit status: 0 written, 2 could not run
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._formats import Keeping, Looking
from unslow.commands._output import Progress
from unslow.commands._request import Option, function_of

if TYPE_CHECKING:
    from unslow.page.view import View


class ReportRequest(Keeping, frozen=True, kw_only=True):
    """The diagnosis with all charts in one file."""

    output: Annotated[
        str | None, Option("output file; - for standard output (default: unslow-report.html)", "-o", metavar="FILE")
    ] = None
    format: Annotated[
        str | None,
        Option("html, markdown or json (default: by file name, else html)", metavar="FORMAT",
               short=("--json", "json")),
    ] = None  # fmt: skip
    title: Annotated[str | None, Option("title of the report", metavar="TEXT")] = None
    no_mask: Annotated[bool, Option("keep names, paths and addresses")] = False
    bench: Annotated[tuple[str, ...], Option("include a benchmark's curves; repeatable", metavar="FILE")] = ()
    verify: Annotated[
        str | None, Option("include a before/after comparison written by `unslow verify --json`", metavar="FILE")
    ] = None
    quiet: Annotated[bool, Option("do not print progress", "-q")] = False


def run(request: ReportRequest) -> int:
    """Write it."""
    from unslow.commands._output import ProgressBar
    from unslow.page.report import write_report

    with ProgressBar(quiet=request.quiet) as progress:
        write_report(request, progress)
    return 0


class ViewRequest(Looking, frozen=True, kw_only=True):
    """A diagnosis with every number that the page draws: memory, roofline, timeline, curves, before and after.

    It sends what `diagnose` sends. A panel that cannot be drawn is None, and `missing` says why.
    """

    ready: Annotated[bool, Option("also work out what each slider of the memory would say, which takes longer")] = False
    masked: Annotated[bool, Option("without user names, home folders, hosts and serial numbers, to share it")] = False


def _view(request: ViewRequest, progress: Progress) -> "View":
    from unslow.commands.diagnose.request import resolve_request
    from unslow.page.build import view_target
    from unslow.page.report import masked_view

    seen = view_target(resolve_request(request), progress, ready=request.ready)
    return masked_view(seen.view, seen.looked) if request.masked else seen.view


view = function_of(ViewRequest, _view, name="view")
