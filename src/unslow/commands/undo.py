"""Take back a change that `unslow apply` made: every file byte for byte as it was, and no file that was not there.

Without an ID, the newest change. What somebody else has changed since is left alone, unless --force, which keeps a copy
of theirs. A change that was stopped in the middle is finished or taken back first.

examples:
  unslow undo
  unslow undo --list
  unslow undo 20260102-030405-0000 --yes

exit status: 0 taken back, or nothing to take back; 1 declined; 2 could not run
"""

from typing import Annotated

from unslow.commands._request import Option, Shown


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


def run(request: UndoRequest) -> int:
    """Show, ask, take back."""
    from unslow.commands._output import color, width, write
    from unslow.commands.apply.changes import agreed, hosts_of, list_changes, system_for, undone, would_undo
    from unslow.show.apply import render_undo

    render_undo.check_format(request.format)
    if request.list:
        write(render_undo(list_changes(request), request.format, width=width(), color=color()))
        return 0
    system = system_for(None, hosts_of(request))
    before = would_undo(system, request)
    quiet = request.format == "json" and request.yes and before.outcome != "nothing"
    if not quiet:
        write(render_undo(before, request.format, width=width(), color=color()))
    if before.outcome == "nothing":
        return 0
    if not agreed("take it back?", yes=request.yes):
        return 1
    request = request._replace(change=before.changes[0].id)  # the one that was shown, whatever came since
    write(render_undo(undone(system, request), request.format, width=width(), color=color()))
    return 0
