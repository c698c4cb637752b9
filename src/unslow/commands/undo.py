"""Take back a change that `unslow apply` made: every file byte for byte as it was, and no file that was not there.

Without an ID, the newest change. What somebody else has changed since is left alone, unless --force, which keeps a copy
of theirs. A change that was stopped in the middle is finished or taken back first.

examples:
  unslow undo
  unslow undo --list
  unslow undo 20260102-030405-0000 --yes

exit status: 0 taken back, or nothing to take back; 1 declined; 2 could not run
"""

from unslow.commands.apply import UndoRequest


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
