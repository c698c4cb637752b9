"""Take back a change that `unslow apply` made: every file byte for byte as it was, and no file that was not there.

Without an ID, the newest change. What somebody else has changed since is left alone, unless --force, which keeps a copy
of theirs. A change that was stopped in the middle is finished or taken back first.

examples:
  unslow undo
  unslow undo --list
  unslow undo 20260102-030405-0000 --yes

exit status: 0 taken back, or nothing to take back; 1 declined; 2 could not run
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    add = parser.add_argument
    add("change", metavar="ID", nargs="?", help="of a change, or how it starts (default: the newest)")
    add("--list", action="store_true", help="list the changes, and do nothing")
    add("--yes", action="store_true", help="do not ask")
    add("--force", action="store_true", help="also over what somebody else has changed since, of which a copy is kept")
    add("--journal", metavar="DIR", help="where changes are written down (default: ~/.local/state/unslow/changes)")
    add("--api-key", default="", metavar="KEY", help="for a server that wants one")
    add_format_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Show, ask, take back."""
    from unslow.app.undo import UndoRequest, hosts_of, listed, undone, would_undo  # noqa: PLC0415 (imported when used)
    from unslow.cli._asking import agreed, system_for  # noqa: PLC0415
    from unslow.cli._output import color, width, write  # noqa: PLC0415
    from unslow.show._apply import check_apply_format, render_undo  # noqa: PLC0415

    check_apply_format(args.format)
    request = UndoRequest(args.change, args.journal, args.force, args.api_key)
    if args.list:
        write(render_undo(listed(request), args.format, width=width(), color=color()))
        return 0
    system = system_for(None, hosts_of(request))
    before = would_undo(system, request)
    quiet = args.format == "json" and args.yes and before.outcome != "nothing"
    if not quiet:
        write(render_undo(before, args.format, width=width(), color=color()))
    if before.outcome == "nothing":
        return 0
    if not agreed("take it back?", yes=args.yes):
        return 1
    request = request._replace(change=before.changes[0].id)  # the one that was shown, whatever came since
    write(render_undo(undone(system, request), args.format, width=width(), color=color()))
    return 0
