"""Make the change that a plan recommends: shown first, asked for, whole or not at all, and taken back by `unslow undo`.

PLAN is a file that `unslow plan --json` wrote, or - for standard input; without one, a plan is made for what runs.
What is changed depends on what starts the server: a drop-in of its systemd unit, the `command` of a compose file, a
shell script, or a model derived through Ollama's API. Where none of these is seen with certainty, the lines to type
are printed instead.

examples:
  unslow plan --json > plan.json; unslow apply plan.json
  unslow apply plan.json --dry-run
  unslow apply plan.json --file start.sh --yes
  unslow apply plan.json --option 2 --yes --restart

exit status: 0 changed, or printed what to type; 1 declined; 2 could not run: nothing was changed, or
with --restart only the restart failed, which is said, and the change stays
"""

from typing import Annotated

from unslow.commands._request import Option, Shown


class ApplyRequest(Shown, frozen=True, kw_only=True):
    """Which change of which plan to make, and how."""

    plan: Annotated[
        str | None,
        Option("a plan as JSON, or - for standard input (default: made now)", metavar="PLAN", positional=True),
    ] = None
    option: Annotated[
        str | None, Option("another option than the recommended one: its number from 0, or its name", metavar="N")
    ] = None
    target: Annotated[str | None, Option("the server, where several run: a process id or a URL", metavar="TARGET")] = (
        None
    )
    file: Annotated[str | None, Option("the compose file or the shell script that starts it", metavar="FILE")] = None
    name: Annotated[
        str | None, Option("of the derived model (Ollama; default: the model's with -unslow)", metavar="NAME")
    ] = None
    yes: Annotated[bool, Option("do not ask")] = False
    dry_run: Annotated[bool, Option("show the change and do nothing")] = False
    restart: Annotated[bool, Option("restart the service afterwards (systemd, compose)")] = False
    journal: Annotated[
        str | None, Option("where changes are written down (default: ~/.local/state/unslow/changes)", metavar="DIR")
    ] = None
    api_key: Annotated[str, Option("for a server that wants one", metavar="KEY")] = ""


class UndoRequest(Shown, frozen=True, kw_only=True):
    """Which change to take back."""

    change: Annotated[
        str | None, Option("of a change, or how it starts (default: the newest)", metavar="ID", positional=True)
    ] = None
    list: Annotated[bool, Option("list the changes, and do nothing")] = False
    yes: Annotated[bool, Option("do not ask")] = False
    force: Annotated[bool, Option("also over what somebody else has changed since, of which a copy is kept")] = False
    journal: Annotated[
        str | None, Option("where changes are written down (default: ~/.local/state/unslow/changes)", metavar="DIR")
    ] = None
    api_key: Annotated[str, Option("for a server that wants one", metavar="KEY")] = ""


def run(request: ApplyRequest) -> int:
    """Show, ask, change."""
    import msgspec

    from unslow.commands._output import color, width, write
    from unslow.commands.apply.changes import agreed, system_for
    from unslow.commands.apply.prepare import check_allowed, performed, prepared, read_plan, restarted
    from unslow.show.apply import render_apply

    render_apply.check_format(request.format)
    system = system_for(request.target)
    ready = prepared(system, read_plan(system, request.plan, request.target), request)
    quiet = request.format == "json" and request.yes and not request.dry_run
    if not quiet or ready.planned is None:
        write(render_apply(ready.report, request.format, width=width(), color=color()))
    if request.dry_run or ready.planned is None:
        return 0
    check_allowed(ready)
    if not agreed("change it?", yes=request.yes):
        return 1
    report = performed(system, ready, request.journal, request.api_key)
    try:
        if request.restart:
            restarted(report.then)
            report = msgspec.structs.replace(report, restarted=True)
    finally:
        write(render_apply(report, request.format, width=width(), color=color()))
    return 0
