"""Revert a change that `unslow apply` made, byte for byte.

Without an ID, the newest change is reverted; files that it created are removed. A file that was edited since is left
alone, unless --force is given, which keeps a copy of it. A change that was interrupted is finished or reverted first.

examples:
  unslow undo
  unslow undo --list
  unslow undo 20260102-030405-0000 --yes

exit status: 0 reverted, or nothing to revert; 1 declined; 2 could not run
"""

from unslow.commands.apply import UndoRequest


def run(request: UndoRequest) -> int:
    """Show, ask, take back."""
    from unslow.commands._output import color, width, write
    from unslow.commands.apply.changes import ask_user, hosts_of, list_changes, system_for, undone, would_undo
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
    if not ask_user("undo this change?", yes=request.yes):
        return 1
    request = request._replace(change=before.changes[0].id)  # the one that was shown, whatever came since
    write(render_undo(undone(system, request), request.format, width=width(), color=color()))
    return 0
