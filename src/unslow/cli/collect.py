"""Look only: write what was seen of this machine and its runtimes into one file.

Nothing is sent to a runtime but read-only questions. User names, keys, serial numbers and prompts are masked.

examples:
  unslow collect -o seen.json
  unslow collect -o seen.json --record seen/      also the raw answers, to be replayed anywhere
  unslow collect seen/ -o again.json              the same snapshot, from the recording
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    parser.add_argument("target", nargs="?", help="a recording folder to read instead of this machine")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="where to write the snapshot; - for standard output"
    )
    parser.add_argument("--record", metavar="DIR", help="also keep the raw answers in this folder")
    parser.add_argument(
        "--no-bandwidth", action="store_true", help="don't measure the memory bandwidth (half a second)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """Collect and write."""
    from unslow.app.collect import write_snapshot  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import Progress  # noqa: PLC0415

    with Progress(quiet=args.quiet) as progress:
        write_snapshot(args.output, args.target, args.record, bandwidth=not args.no_bandwidth, progress=progress)
    return 0
