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

import signal
from typing import Annotated

from unslow.commands._request import PERCENT, Option, Told


class TuneRequest(Told, frozen=True, kw_only=True):
    """A model or a plan, the program to start, and for how long."""

    target: Annotated[
        str,
        Option("a GGUF file or stored model, or what `unslow plan --json` wrote", metavar="MODEL|PLAN.json",
               positional=True),
    ]  # fmt: skip
    server: Annotated[str, Option("the llama-server to start (default: by the PATH)", metavar="PATH")] = "llama-server"
    seconds: Annotated[float, Option("about how long (default: 300)", metavar="N", least=5, most=86_400)] = 300.0
    context: Annotated[
        int | None,
        Option("tokens that a conversation must have room for (default: 8192)", "-c", metavar="N", least=256,
               most=2**27),
    ] = None  # fmt: skip
    prompt: Annotated[
        int | None,
        Option("new tokens of a usual request (default: 512, or the plan's)", metavar="N", least=1, most=2**24),
    ] = None
    kept: Annotated[
        int | None,
        Option("tokens of the conversation that are in the cache already (default: 0)", metavar="N", least=0,
               most=2**24),
    ] = None  # fmt: skip
    answer: Annotated[
        int | None, Option("tokens of a usual answer (default: 256)", metavar="N", least=8, most=2**20)
    ] = None
    """Fewer than 8 tell no speed."""
    draft: Annotated[
        str | None, Option("a small model of the same family that guesses ahead: tried too", metavar="FILE")
    ] = None
    worst_perplexity_increase: Annotated[
        float | None,
        Option("how much worse than in 16 bits it may predict a text (default: as the file given)",
               name="worst_perplexity", metavar="PERCENT", kind=PERCENT),
    ] = None  # fmt: skip
    model: Annotated[
        str | None, Option("with a PLAN.json: the file of its model, where its commands don't name it", metavar="FILE")
    ] = None
    yes: Annotated[bool, Option("measure even if others use the GPU")] = False
    output: Annotated[str | None, Option("write the report, as JSON", "-o", metavar="FILE")] = None

    @property
    def is_plan(self) -> bool:
        """Whether the target is a plan in a file."""
        return self.target.lower().endswith(".json")


def run(request: TuneRequest) -> int:
    """Measure, judge and show."""
    from unslow.commands._output import ProgressBar, color, width, write
    from unslow.commands.tune.search import tune
    from unslow.commands.verify.comparison import write_report
    from unslow.show.tune import render_tune
    from unslow.think.stats.tuning import tune_status

    render_tune.check_format(request.format)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a limit of time keeps what was measured, as Ctrl-C does
    with ProgressBar(quiet=request.quiet) as progress:
        report = tune(request, progress)
    write(render_tune(report, request.format, width=width(), color=color()))
    if request.output:
        write_report(report, request.output)
    return tune_status(report)
