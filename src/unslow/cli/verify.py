"""Prove a change: before and after, the same requests, a verdict on speed, and the answers compared.

BEFORE and AFTER are servers that run (URL or process id), or command lines that start them: those are started on
loopback, one after the other in turns, or with --together at the same time, and ended again. Each round asks both the
same, and who goes first changes. A speed-up that changed the answers is none: greedy answers and, where the runtime
gives probabilities, the perplexity of a text are compared as well.

examples:
  unslow verify --before http://127.0.0.1:8080 --after http://127.0.0.1:8081
  unslow verify --before "llama-server -m model.gguf" --after "llama-server -m model.gguf -ctk q8_0 -ctv q8_0 -fa on"
  unslow verify --plan plan.json --option 2
  unslow verify --save before.json http://127.0.0.1:8080      (then change and restart it by hand)
  unslow verify --against before.json http://127.0.0.1:8080
  unslow verify --save before.json --plan plan.json           (of the server that the plan was made for)

exit status: 0 faster or the same, 1 slower, broken or other answers, 2 could not run, 3 cannot tell speed or answers
"""

import argparse
import signal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    add = parser.add_argument
    add("target", nargs="?", metavar="TARGET", help="the server of --save and --against; elsewhere the same as --after")
    add("--before", metavar="URL|LINE", help="how it was: a server that runs, or the command that starts it")
    add("--after", metavar="URL|LINE", help="how it is now")
    add("--plan", metavar="FILE", help="what `unslow plan --json` wrote: its current command and that of an option")
    add(
        "--option",
        type=int,
        metavar="N",
        help="the option of the plan, from 0 as in the JSON (default: the recommended)",
    )
    add("--save", metavar="FILE", help="measure one server and keep it, to be held against it later")
    add("--against", metavar="FILE", help="measure one server and hold it against what was kept")
    add("--prompt", type=int, metavar="N", help="new tokens of a prompt (default: 128, or the plan's)")
    add("--kept", type=int, metavar="N", help="tokens before them that the cache has already (default: 0)")
    add("--answer", type=int, metavar="N", help="tokens of an answer (default: 128)")
    add("--seconds", type=float, default=120.0, metavar="N", help="about how long, starts included (default: 120)")
    add("--together", action="store_true", help="run both command lines at the same time, where both fit")
    add("--allow", type=float, metavar="SHARE", help="rise of perplexity that passes (default: 0.05, or the plan's)")
    add("--no-answers", action="store_true", help="compare speed alone")
    add("--model", metavar="NAME", help="which of the models that a server has")
    add("-o", "--output", metavar="FILE", help="write the report, as JSON")
    add("--evict", action="store_true", help="measure even if a chat must then read its prompt again")
    add("--api-key", metavar="KEY", help="for a server that asks for one (or UNSLOW_API_KEY)")
    add("-q", "--quiet", action="store_true", help="don't say what is being done")
    add_format_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, judge and show."""
    from unslow.app.verify.command import Request, verify, write_report  # noqa: PLC0415 (imported when used)
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.show._verify import check_verify_format, render_side, render_verify  # noqa: PLC0415
    from unslow.think.verify.judge import status_of  # noqa: PLC0415
    from unslow.think.verify.report import VerifyReport  # noqa: PLC0415

    check_verify_format(args.format)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a limit of time keeps what was measured, as Ctrl-C does
    with Progress(quiet=args.quiet) as progress:
        result = verify(Request.from_flags(vars(args)), progress)
    if not isinstance(result, VerifyReport):
        write(render_side(result.side, args.format, result.path, width=width(), color=color()))
        return 0
    write(render_verify(result, args.format, width=width(), color=color()))
    if args.output:
        write_report(result, args.output)
    return status_of(result)
