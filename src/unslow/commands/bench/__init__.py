"""Measure speed with a standard protocol; sweep, compare with earlier runs, gate CI.

The standard protocol: two questions with answers of 512 tokens and a prompt that fills 4K of context, three rounds or
more, medians with a 95 % interval. If nothing is running, the embedded engine is measured, on a synthetic model or on
--model FILE. Every benchmark is stored, so that later ones can be compared with it. Ctrl-C keeps what was measured.

sweeps (--sweep NAME or NAME=VALUES; each ends early when the answer is clear):
  depth     speed by context depth: the normal slope of reading the KV cache, or a cliff
  users     concurrent requests: total and per request, against what batching should reach
  minutes   minutes or hours of load: does it keep its speed (minutes=60)
  turns     first and later turns of a conversation: does the prompt cache work
  threads, batch, ubatch, load
            start-up settings, so a server is started: --model FILE or --command "llama-server -m ..."

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

exit status: 0 measured, 1 slower than before or a condition failed, 2 could not run, 3 cannot tell
"""

import os
import signal
import sys
from typing import Annotated

from unslow.commands._request import LongRequest, Option
from unslow.facts.errors import UserError


class BenchRequest(LongRequest, frozen=True, kw_only=True):
    """A benchmark that people can compare, or a command on the saved ones."""

    target: Annotated[
        str | None, Option("URL or process id of a running server", metavar="TARGET", positional=True)
    ] = None
    quick: Annotated[bool, Option("shorter requests: about a quarter of the time")] = False
    repeats: Annotated[
        int | None,
        Option("rounds of the protocol (default: 3, more if they disagree)", metavar="N", least=1, most=1000),
    ] = None
    tokens: Annotated[
        int | None, Option("tokens generated per request (default: 512)", metavar="N", least=1, most=131072)
    ] = None
    sweep: Annotated[tuple[str, ...], Option("sweep one parameter instead; repeatable", metavar="NAME[=V,V]")] = ()
    model: Annotated[
        str | None,
        Option("run the embedded engine on this GGUF file; with TARGET: which of its models", metavar="NAME"),
    ] = None
    command: Annotated[
        str | None, Option("start this server on a free loopback port, and stop it at the end", metavar="LINE")
    ] = None
    parts: Annotated[bool, Option("split the time per token into step, sampling and streaming")] = False
    llama_bench: Annotated[
        str | None, Option("with --parts: output of llama-bench -o json for the same model", metavar="FILE")
    ] = None
    against: Annotated[str | None, Option("a second server, measured in alternation with the first", metavar="URL")] = (
        None
    )
    compare: Annotated[str | None, Option("compare with an earlier benchmark", metavar="LAST|ID|FILE", bare="LAST")] = (
        None
    )
    require: Annotated[
        tuple[str, ...], Option('condition such as "decode >= 0.7 * expected"; exit 1 if it fails', metavar="CONDITION")
    ] = ()
    hz: Annotated[float, Option("machine samples per second (default: 10, 0: none)", metavar="N", least=0, most=50)] = (
        10.0
    )
    series: Annotated[str | None, Option("write every sample: .csv or .arrow", metavar="FILE")] = None
    label: Annotated[str | None, Option("label of this benchmark", metavar="TEXT")] = None
    no_keep: Annotated[bool, Option("do not save it in the history")] = False
    output: Annotated[str | None, Option("write the result as JSON", "-o", metavar="FILE")] = None
    export: Annotated[str | None, Option("write the result in the format of llama-bench -o json", metavar="FILE")] = (
        None
    )
    list: Annotated[bool, Option("list the saved benchmarks")] = False
    forget: Annotated[str | None, Option("remove a benchmark from the history", metavar="ID")] = None
    import_file: Annotated[
        str | None, Option("add a file written by llama-bench -o json or by -o", name="import", metavar="FILE")
    ] = None
    evict: Annotated[bool, Option("measure even if it evicts a conversation's prompt cache")] = False
    api_key: Annotated[str | None, Option("API key for the server (or UNSLOW_API_KEY)", metavar="KEY")] = None


def run(request: BenchRequest) -> int:
    """Measure, or look after the history, and show."""
    from unslow.commands._output import ProgressBar, color, width, write
    from unslow.show.bench import render_bench

    render_bench.check_format(request.format)
    asked = [name for name in ("list", "forget", "import_file") if getattr(request, name)]
    if not asked:
        from unslow.commands.bench.measurement import benchmark, exit_status

        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a limit of time keeps what was measured, as Ctrl-C
        with ProgressBar(quiet=request.quiet) as progress:
            result = benchmark(request, progress)
        try:
            write(render_bench(result, request.format, width=width(), color=color()))
        except BrokenPipeError:  # nobody reads it any more, but a gate still wants the status
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if result.unwritten:
            raise result.unwritten
        return exit_status(result)
    if len(asked) > 1 or request.target or request.sweep:
        raise UserError(
            "history options cannot be combined with a measurement", "give --list, --forget or --import alone"
        )
    from unslow.commands._bench_history import forget, import_file, list_benchmarks
    from unslow.show.bench_history import render_history

    name = asked[0]
    report = {"list": lambda _: list_benchmarks(), "forget": forget, "import_file": import_file}[name](
        getattr(request, name)
    )
    write(render_history(report, request.format, width=width(), color=color()))
    return 0
