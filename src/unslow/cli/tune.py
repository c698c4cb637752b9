"""Measure around a plan, for when the last percents matter: start, ask, compare, and keep the fastest.

It takes a model as `unslow plan` does, or the file that `unslow plan --json` wrote. llama.cpp's own choice, the plan,
the rest of its front and settings one step from it are started on loopback, one after the other, and asked the same;
after each stage the slower half goes (successive halving). Servers that run already are never touched.

examples:
  unslow tune model.gguf
  unslow tune model.gguf --context 16384 --prompt 4096 --answer 256 --seconds 900
  unslow tune plan.json --server ~/llama.cpp/build/bin/llama-server --json
  unslow tune model.gguf --draft small.gguf

exit status: 0 there is a winner, 1 nothing ran, 2 could not run, 3 cannot tell
"""

import argparse
import signal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    add = parser.add_argument
    add("target", metavar="MODEL|PLAN.json", help="a GGUF file or stored model, or what `unslow plan --json` wrote")
    add("--server", default="llama-server", metavar="PATH", help="the llama-server to start (default: by the PATH)")
    add("--seconds", type=float, default=300.0, metavar="N", help="about how long (default: 300)")
    add("-c", "--context", metavar="N", help="tokens that a conversation must have room for (default: 8192)")
    add("--prompt", metavar="N", help="new tokens of a usual request (default: 512, or the plan's)")
    add("--kept", metavar="N", help="tokens of the conversation that are in the cache already (default: 0)")
    add("--answer", metavar="N", help="tokens of a usual answer (default: 256)")
    add("--draft", metavar="FILE", help="a small model of the same family that guesses ahead: tried too")
    floor = "how much worse than in 16 bits it may predict a text (default: as the file given)"
    add("--worst-perplexity", dest="worst_perplexity_increase", metavar="PERCENT", help=floor)
    add("--model", metavar="FILE", help="with a PLAN.json: the file of its model, where its commands don't name it")
    add("--yes", action="store_true", help="measure even if others use the GPU")
    add("-o", "--output", metavar="FILE", help="write the report, as JSON")
    add("-q", "--quiet", action="store_true", help="don't say what is being done")
    add_format_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, judge and show."""
    from unslow.app.tune.command import Request, tune, write_report  # noqa: PLC0415 (imported when used)
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.show._tune import check_tune_format, render_tune  # noqa: PLC0415
    from unslow.think.tune.judge import status_of  # noqa: PLC0415

    check_tune_format(args.format)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a limit of time keeps what was measured, as Ctrl-C does
    with Progress(quiet=args.quiet) as progress:
        report = tune(Request.from_flags(vars(args)), progress)
    write(render_tune(report, args.format, width=width(), color=color()))
    if args.output:
        write_report(report, args.output)
    return status_of(report)
