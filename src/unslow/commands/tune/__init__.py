"""Measure settings around a plan to find the last few percent.

It takes a model like `unslow plan`, or a file written by `unslow plan --json`. llama.cpp's own choice, the plan, the
rest of its Pareto front and settings one step from it are started on loopback, one after the other, and get the same
requests; after each stage the slower half is dropped (successive halving). Running servers are never touched.

examples:
  unslow tune model.gguf
  unslow tune model.gguf --context 16384 --prompt 4096 --answer 256 --seconds 900
  unslow tune plan.json --server ~/llama.cpp/build/bin/llama-server --json
  unslow tune model.gguf --draft small.gguf

exit status: 0 found a winner, 1 nothing ran, 2 could not run, 3 cannot tell
"""

import signal
from typing import Annotated

from unslow.commands._request import PERCENT, LongRequest, Option


class TuneRequest(LongRequest, frozen=True, kw_only=True):
    """A model or a plan, the program to start, and for how long."""

    target: Annotated[
        str,
        Option("GGUF file, stored model, or a plan written by `unslow plan --json`", metavar="MODEL|PLAN.json",
               positional=True),
    ]  # fmt: skip
    server: Annotated[str, Option("llama-server to start (default: from PATH)", metavar="PATH")] = "llama-server"
    seconds: Annotated[float, Option("time budget (default: 300)", metavar="N", least=5, most=86_400)] = 300.0
    context: Annotated[
        int | None,
        Option("context length per conversation (default: 8192)", "-c", metavar="N", least=256,
               most=2**27),
    ] = None  # fmt: skip
    prompt: Annotated[
        int | None,
        Option("prompt tokens of a typical request (default: 512, or the plan's)", metavar="N", least=1, most=2**24),
    ] = None
    kept: Annotated[
        int | None,
        Option("tokens already in the KV cache (default: 0)", metavar="N", least=0,
               most=2**24),
    ] = None  # fmt: skip
    answer: Annotated[
        int | None, Option("generated tokens of a typical request (default: 256)", metavar="N", least=8, most=2**20)
    ] = None
    """Fewer than 8 tell no speed."""
    draft: Annotated[str | None, Option("draft model of the same family, to try too", metavar="FILE")] = None
    worst_perplexity_increase: Annotated[
        float | None,
        Option("maximum perplexity increase over 16 bits (default: as the file)",
               name="worst_perplexity", metavar="PERCENT", kind=PERCENT),
    ] = None  # fmt: skip
    model: Annotated[
        str | None, Option("with a PLAN.json: its model file, if its commands do not name it", metavar="FILE")
    ] = None
    yes: Annotated[bool, Option("measure even if other processes use the GPU")] = False
    output: Annotated[str | None, Option("write the report as JSON", "-o", metavar="FILE")] = None

    @property
    def is_plan(self) -> bool:
        """Whether the target is a plan in a file."""
        return self.target.lower().endswith(".json")


def run(request: TuneRequest) -> int:
    """Measure, judge and show."""
    from unslow.commands._output import show_answer
    from unslow.commands.tune.search import tune
    from unslow.commands.verify.comparison import write_report
    from unslow.show.tune import render_tune
    from unslow.think.stats.tuning import TUNE_STATUS

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a limit of time keeps what was measured, as Ctrl-C does
    report = show_answer(request, render_tune, tune)
    if request.output:
        write_report(report, request.output)
    return TUNE_STATUS[report.verdict]
