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

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    add = parser.add_argument
    add("plan", metavar="PLAN", nargs="?", help="a plan as JSON, or - for standard input (default: made now)")
    add("--option", metavar="N", help="another option than the recommended one: its number from 0, or its name")
    add("--target", metavar="TARGET", help="the server, where several run: a process id or a URL")
    add("--file", metavar="FILE", help="the compose file or the shell script that starts it")
    add("--name", metavar="NAME", help="of the derived model (Ollama; default: the model's with -unslow)")
    add("--yes", action="store_true", help="do not ask")
    add("--dry-run", action="store_true", help="show the change and do nothing")
    add("--restart", action="store_true", help="restart the service afterwards (systemd, compose)")
    add("--journal", metavar="DIR", help="where changes are written down (default: ~/.local/state/unslow/changes)")
    add("--api-key", default="", metavar="KEY", help="for a server that wants one")
    add_format_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Show, ask, change."""
    import msgspec  # noqa: PLC0415 (imported when used: --help stays quick)

    from unslow.app.apply import ApplyRequest, performed, prepared  # noqa: PLC0415
    from unslow.app.apply.perform import check_allowed, restarted  # noqa: PLC0415
    from unslow.cli._asking import agreed, system_for  # noqa: PLC0415
    from unslow.cli._output import color, width, write  # noqa: PLC0415
    from unslow.show._apply import check_apply_format, render_apply  # noqa: PLC0415

    check_apply_format(args.format)
    given = {name: value for name, value in vars(args).items() if name in ApplyRequest._fields}
    request, system = ApplyRequest(**given), system_for(args.target)
    ready = prepared(system, request)
    quiet = args.format == "json" and args.yes and not args.dry_run
    if not quiet or ready.planned is None:
        write(render_apply(ready.report, args.format, width=width(), color=color()))
    if args.dry_run or ready.planned is None:
        return 0
    check_allowed(ready)
    if not agreed("change it?", yes=args.yes):
        return 1
    report = performed(system, ready, args.journal, args.api_key)
    try:
        if args.restart:
            restarted(report.then)
            report = msgspec.structs.replace(report, restarted=True)
    finally:
        write(render_apply(report, args.format, width=width(), color=color()))
    return 0
