"""Say whether a claim of a speed, a size or a fit is possible, with the arithmetic.

CLAIM is free text: a model, a device, and what is said of them. `-` reads it from standard input, and --file reads a
text of which every sentence and every cell of a table is a claim of its own. The verdict is possible, unlikely (just
below a limit, or only with settings that nobody named), impossible, or that nothing can be told.

examples:
  unslow check "Llama 3.3 70B Q4_K_M on an RTX 4090 at 72 tok/s"
  unslow check "Llama 3 8B at 32K context needs 16 GB of KV cache"
  unslow check "70B Q4 fits in 24 GB"
  unslow check "-ngl 33 for a 70B puts everything on the GPU"
  unslow check --file notes.md --json

exit status: 0 possible, 1 impossible or unlikely, 2 could not run, 3 cannot tell
"""

import argparse

from unslow.facts.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    parser.add_argument("claim", metavar="CLAIM", nargs="*", help="what is claimed, or - for standard input")
    parser.add_argument("--file", metavar="FILE", help="judge every sentence of a text; - for standard input")
    parser.add_argument("--all", action="store_true", help="with --file: show the possible ones too")
    add_format_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Judge and show."""
    from unslow.app.check import answer, read_claims  # noqa: PLC0415 (imported when used: --help stays quick)
    from unslow.cli._output import color, width, write  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415
    from unslow.show._check import check_check_format, render_check  # noqa: PLC0415

    check_check_format(args.format)
    claim = " ".join(args.claim)
    if args.file and claim:
        raise UserError("both a claim and a file", "give one of them")
    source = args.file or ("-" if claim == "-" else "")
    text = _piped() if source == "-" else read_claims(LiveSystem(), source) if source else claim
    report = answer(text, several=bool(args.file))
    write(render_check(report, args.format, width=width(), color=color(), everything=args.all or not args.file))
    return {"possible": 0, "unlikely": 1, "impossible": 1, "cannot_tell": 3}[report.verdict]


def _piped() -> str:
    """What stands on standard input, as far as it is read."""
    import sys  # noqa: PLC0415

    from unslow.app.check import decoded  # noqa: PLC0415
    from unslow.think.claims import LONGEST_TEXT  # noqa: PLC0415

    if sys.stdin is None:
        raise UserError("there is no standard input", "give the claim itself, or --file FILE")
    return decoded(sys.stdin.buffer.read(LONGEST_TEXT * 4), "standard input")
