"""Say what each size of memory runs: the largest models that fit whole, their quant, and how fast a typical device is.

Every well-known model that was trained for such a context is gone through; the largest of each family is shown, or a
later version about as large, and what was trained for less than 32,768 tokens last. A typical device is the one of
the middle bandwidth among those with so much memory, of cards those of the cheaper half.

examples:
  unslow tiers
  unslow tiers --memory 8,12,16,24,48 --context 16k
  unslow tiers --memory 24 --quant-least Q6_K --rows 10
  unslow tiers --unified 32,64,128 --json
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    add = parser.add_argument
    add("--memory", metavar="GB,GB", help="of cards (default: 8,12,16,24,32,48)")
    add("--unified", metavar="GB,GB", help="that GPU and host share (default: 16,32,64,128)")
    add("-c", "--context", metavar="N", help="tokens that must fit: 8192 (default) or 32k")
    add("--quant-least", metavar="NAME", help="the coarsest quant that will do (default: Q4_K_M)")
    add("--rows", metavar="N", help="models for each size (default: 5)")
    add_format_arguments(parser)
    add("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """Go through all and show."""
    from unslow.app.buy import TiersRequest, tiers  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415
    from unslow.show._buy import check_buy_format  # noqa: PLC0415
    from unslow.show._tiers import render_tiers  # noqa: PLC0415

    check_buy_format(args.format)
    with Progress(quiet=args.quiet) as progress:
        report = tiers(LiveSystem(), TiersRequest.from_flags(vars(args)), progress)
    write(render_tiers(report, args.format, width=width(), color=color()))
    return 0
