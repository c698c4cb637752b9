"""Measure speed as people can compare it, with what the machine did meanwhile.

The standard protocol: two questions with answers of 512 tokens and a prompt that fills 4K of context, three rounds or
more, medians with a 95 % interval. Nothing running? Then the embedded engine is measured, on a made-up model or on
--model FILE. Every benchmark is kept, so that a later one can be held against it. Ctrl-C keeps what was measured.

sweeps (--sweep NAME or NAME=VALUES; each ends early when the answer is clear):
  depth     speed by context depth: the honest slope of reading the KV cache, or a cliff
  users     many at once: all together and each, against what batching should give
  minutes   for minutes or hours: does it keep its speed (minutes=60)
  turns     first against later turns of a conversation: does the prompt cache work
  threads, batch, ubatch, load
            set when a server starts, so one is started: --model FILE or --command "llama-server -m ..."

examples:
  unslow bench
  unslow bench http://127.0.0.1:8080 --quick
  unslow bench --sweep depth --sweep users=1,4,16
  unslow bench --model model.gguf --sweep threads
  unslow bench --compare LAST
  unslow bench http://127.0.0.1:8080 --against http://127.0.0.1:8081
  unslow bench --require "decode >= 0.7 * expected" --require "ttft < 2 s"
  unslow bench --list
  unslow bench --import llama-bench.json

exit status: 0 measured, 1 slower than before or a condition does not hold, 2 could not run, 3 cannot tell
"""

import argparse
import os
import signal
import sys
from typing import Any

from unslow.facts.errors import UserError

_ALONE = ("list", "forget", "import_file")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    from unslow.cli._output import add_format_arguments  # noqa: PLC0415

    add = parser.add_argument
    add("target", nargs="?", metavar="TARGET", help="URL or process id of a running server")
    add_format_arguments(parser)
    add("--quick", action="store_true", help="shorter answers and prompts: about a quarter of the time")
    add("--repeats", type=int, metavar="N", help="rounds of the protocol (default: 3, more while they disagree)")
    add("--tokens", type=int, metavar="N", help="length of an answer (default: 512)")
    add("--sweep", action="append", metavar="NAME[=V,V]", help="vary one thing instead; may be repeated")
    add("--model", metavar="NAME", help="start the embedded engine on this GGUF file; with TARGET: which of its models")
    add("--command", metavar="LINE", help="start this server, on loopback and a free port, and stop it in the end")
    add("--parts", action="store_true", help="split the time of a token: the step itself, sampling, streaming")
    add("--llama-bench", metavar="FILE", help="with --parts: what llama-bench -o json gave for the same model")
    add("--against", metavar="URL", help="a second server, asked in turns with the first")
    add("--compare", nargs="?", const="LAST", metavar="LAST|ID|FILE", help="hold it against an earlier benchmark")
    add("--require", action="append", metavar="CONDITION", help='such as "decode >= 0.7 * expected"; exit 1 if not')
    add("--hz", type=float, default=10.0, metavar="N", help="samples of the machine per second (default: 10, 0: none)")
    add("--series", metavar="FILE", help="write every sample: .csv or .arrow")
    add("--label", metavar="TEXT", help="a name for this benchmark")
    add("--no-keep", action="store_true", help="don't keep it in the history")
    add("-o", "--output", metavar="FILE", help="write the result, as JSON")
    add("--export", metavar="FILE", help="write the result as llama-bench -o json does")
    add("--list", action="store_true", help="what is kept")
    add("--forget", metavar="ID", help="remove a benchmark from the history")
    add(
        "--import",
        dest="import_file",
        metavar="FILE",
        help="keep what llama-bench -o json, or -o of this command wrote",
    )
    add("--evict", action="store_true", help="measure even if a chat must then read its prompt again")
    add("--api-key", metavar="KEY", help="for a server that asks for one (or UNSLOW_API_KEY)")
    add("-q", "--quiet", action="store_true", help="don't say what is being done")


def run(args: argparse.Namespace) -> int:
    """Measure, or look after the history, and show."""
    from unslow.show._bench import check_bench_format  # noqa: PLC0415 (imported when used)

    check_bench_format(args.format)
    flags = vars(args)
    asked = [name for name in _ALONE if flags[name]]
    if not asked:
        return _measured(flags)
    if len(asked) > 1 or args.target or args.sweep:
        raise UserError("the history is looked after apart from measuring", "give --list, --forget or --import alone")
    return _history(flags, asked[0])


def _measured(flags: dict[str, Any]) -> int:
    from unslow.app.bench.command import Request, benchmark  # noqa: PLC0415
    from unslow.cli._output import Progress, color, width, write  # noqa: PLC0415
    from unslow.show._bench import render_bench  # noqa: PLC0415

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a limit of time keeps what was measured, as Ctrl-C does
    with Progress(quiet=flags["quiet"]) as progress:
        result = benchmark(Request.from_flags(flags), progress, output=flags["output"], llama_bench=flags["export"])
    try:
        write(render_bench(result, flags["format"], width=width(), color=color()))
    except BrokenPipeError:  # nobody reads it any more, but a gate still wants the status
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if result.unwritten:
        raise result.unwritten
    return result.status


def _history(flags: dict[str, Any], asked: str) -> int:
    from unslow.app.bench.command import forget, import_file, listed  # noqa: PLC0415
    from unslow.cli._output import color, width, write  # noqa: PLC0415
    from unslow.show._bench_history import render_history  # noqa: PLC0415

    report = {"list": lambda _: listed(), "forget": forget, "import_file": import_file}[asked](flags[asked])
    write(render_history(report, flags["format"], width=width(), color=color()))
    return 0
