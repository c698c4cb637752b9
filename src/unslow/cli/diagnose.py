"""Find the running runtimes, measure them, and say why they are slow.

TARGET is a URL, a process id, a snapshot file or a recording folder; without one, this machine. With no runtime
running, the embedded engine is measured on a made-up model. A busy server is only observed. It measures what would
settle most, until nothing is worth its time; Ctrl-C ends that, and gives the report so far.

examples:
  unslow
  unslow http://127.0.0.1:8080 --goal 20
  unslow 4242 --passive
  unslow diagnose seen.json --json
  unslow diagnose --record seen/      also the raw answers; `unslow diagnose seen/` then gives the same report
"""

import argparse

EXIT = {"failed": 1, "slow": 1, "cannot_tell": 3, "normal": 0}
"""The worst verdict first: one slow server among healthy ones is something found."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._looking import add_looking_arguments  # noqa: PLC0415
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    add_looking_arguments(parser)
    add_format_arguments(parser, diagnosis=True)
    parser.add_argument("--all", action="store_true", help="show everything that was ruled out")
    parser.add_argument("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """Diagnose and show."""
    from unslow.app.diagnose import Request, diagnose_target  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.show import check_format, render  # noqa: PLC0415

    check_format(args.format)
    with Progress(quiet=args.quiet) as progress:
        report = diagnose_target(Request.from_flags(vars(args)), progress)
    write(render(report, args.format, width=width(), color=color(), everything=args.all))
    verdicts = [subject.verdict for subject in report.subjects]
    return next((status for verdict, status in EXIT.items() if verdict in verdicts), 3)
