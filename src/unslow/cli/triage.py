"""Diagnose any pasted text: a log, a bug report, a command line, `nvidia-smi`, `ollama ps`, in any mixture.

FILE is a text of any size and any operating system; `-` reads standard input. It says which runtime and version the
text tells of, judges it with the same causes as a live machine, and asks for the commands that would settle what the
text leaves open. Nothing is sent anywhere.

examples:
  unslow triage server.log
  pbpaste | unslow triage -
  journalctl -u ollama --no-pager | unslow triage -
  unslow triage report.txt --format markdown
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    parser.add_argument("file", metavar="FILE|-", help="the text; - for standard input")
    add_format_arguments(parser, diagnosis=True)
    parser.add_argument("--save", metavar="FILE", help="also write what was understood as a snapshot, masked")
    parser.add_argument("--all", action="store_true", help="show everything that was ruled out or could not be told")
    parser.add_argument("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """Read, judge and show."""
    from unslow.app.save import save  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.app.text_source import read_text_source  # noqa: PLC0415
    from unslow.app.triage import triage  # noqa: PLC0415
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.cli.diagnose import EXIT  # noqa: PLC0415
    from unslow.show import check_format, render  # noqa: PLC0415

    check_format(args.format)
    with Progress(quiet=args.quiet) as progress, read_text_source(args.file) as source:
        report, snapshot = triage(source.chunks, source.name, source.follow(progress))
        if args.save:
            save(snapshot, args.save, progress)
    write(render(report, args.format, width=width(), color=color(), everything=args.all))
    verdicts = [subject.verdict for subject in report.subjects]
    return next((status for verdict, status in EXIT.items() if verdict in verdicts), 3)
