"""Apply the change that a plan recommends; `unslow undo` reverts it.

The change is shown first and confirmed, and it is made completely or not at all.

PLAN is a file written by `unslow plan --json`, or - for standard input; without one, a plan is made for what runs.
What is changed depends on what starts the server: a drop-in of its systemd unit, the `command` of a compose file, a
shell script, or a model derived through Ollama's API. If none of these is certain, the lines to type are printed
instead.

examples:
  unslow plan --json > plan.json; unslow apply plan.json
  unslow apply plan.json --dry-run
  unslow apply plan.json --file start.sh --yes
  unslow apply plan.json --option 2 --yes --restart

exit status: 0 changed, or printed what to type; 1 declined; 2 could not run: nothing was changed, or with --restart
only the restart failed, which is reported, and the change stays
"""

from typing import Annotated

from unslow.commands._request import Option, ShownRequest


class ApplyRequest(ShownRequest, frozen=True, kw_only=True):
    """Which option of which plan to apply, and how."""

    plan: Annotated[
        str | None, Option("plan as JSON, or - for standard input (default: plan now)", metavar="PLAN", positional=True)
    ] = None
    option: Annotated[
        str | None, Option("option to apply instead of the recommended one: number (from 0) or name", metavar="N")
    ] = None
    target: Annotated[str | None, Option("which server, if several run: process id or URL", metavar="TARGET")] = None
    file: Annotated[str | None, Option("compose file or shell script that starts the server", metavar="FILE")] = None
    name: Annotated[
        str | None, Option("name of the derived model (Ollama; default: the model's name with -unslow)", metavar="NAME")
    ] = None
    yes: Annotated[bool, Option("do not ask")] = False
    dry_run: Annotated[bool, Option("only show the change")] = False
    restart: Annotated[bool, Option("restart the service afterwards (systemd, compose)")] = False
    journal: Annotated[
        str | None, Option("folder that records changes (default: ~/.local/state/unslow/changes)", metavar="DIR")
    ] = None
    api_key: Annotated[str, Option("API key for the server", metavar="KEY")] = ""


class UndoRequest(ShownRequest, frozen=True, kw_only=True):
    """Which change to undo."""

    change: Annotated[
        str | None, Option("change id or its prefix (default: the newest)", metavar="ID", positional=True)
    ] = None
    list: Annotated[bool, Option("only list the changes")] = False
    yes: Annotated[bool, Option("do not ask")] = False
    force: Annotated[bool, Option("undo even if the file was changed since (keeps a copy of it)")] = False
    journal: Annotated[
        str | None, Option("folder that records changes (default: ~/.local/state/unslow/changes)", metavar="DIR")
    ] = None
    api_key: Annotated[str, Option("API key for the server", metavar="KEY")] = ""


def run(request: ApplyRequest) -> int:
    """Show, ask, change."""
    import msgspec

    from unslow.commands._output import color, width, write
    from unslow.commands.apply.changes import ask_user, system_for
    from unslow.commands.apply.prepare import check_allowed, perform_change, prepare_change, read_plan, restart_server
    from unslow.show.apply import render_apply

    render_apply.check_format(request.format)
    system = system_for(request.target)
    ready = prepare_change(system, read_plan(system, request.plan, request.target), request)
    quiet = request.format == "json" and request.yes and not request.dry_run
    if not quiet or ready.planned is None:
        write(render_apply(ready.report, request.format, width=width(), color=color()))
    if request.dry_run or ready.planned is None:
        return 0
    check_allowed(ready)
    if not ask_user("apply this change?", yes=request.yes):
        return 1
    report = perform_change(system, ready, request.journal, request.api_key)
    try:
        if request.restart:
            restart_server(report.then)
            report = msgspec.structs.replace(report, restarted=True)
    finally:
        write(render_apply(report, request.format, width=width(), color=color()))
    return 0
