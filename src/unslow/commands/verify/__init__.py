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

import signal
from typing import Annotated

from unslow.commands._request import Option, Told


class VerifyRequest(Told, frozen=True, kw_only=True):
    """Two servers, or one and what was kept of the other."""

    target: Annotated[
        str | None,
        Option("the server of --save and --against; elsewhere the same as --after", metavar="TARGET", positional=True),
    ] = None
    before: Annotated[
        str | None, Option("how it was: a server that runs, or the command that starts it", metavar="URL|LINE")
    ] = None
    after: Annotated[str | None, Option("how it is now", metavar="URL|LINE")] = None
    plan: Annotated[
        str | None, Option("what `unslow plan --json` wrote: its current command and that of an option", metavar="FILE")
    ] = None
    option: Annotated[
        int | None,
        Option("the option of the plan, from 0 as in the JSON (default: the recommended)", metavar="N", least=0,
               most=10_000),
    ] = None  # fmt: skip
    save: Annotated[
        str | None, Option("measure one server and keep it, to be held against it later", metavar="FILE")
    ] = None
    against: Annotated[str | None, Option("measure one server and hold it against what was kept", metavar="FILE")] = (
        None
    )
    prompt: Annotated[
        int | None, Option("new tokens of a prompt (default: 128, or the plan's)", metavar="N", least=1, most=1_000_000)
    ] = None
    kept: Annotated[
        int | None,
        Option("tokens before them that the cache has already (default: 0)", metavar="N", least=0, most=1_000_000),
    ] = None
    answer: Annotated[int | None, Option("tokens of an answer (default: 128)", metavar="N", least=8, most=32_768)] = (
        None
    )
    seconds: Annotated[
        float, Option("about how long, starts included (default: 120)", metavar="N", least=1, most=86_400)
    ] = 120.0
    together: Annotated[bool, Option("run both command lines at the same time, where both fit")] = False
    allow: Annotated[
        float | None,
        Option("rise of perplexity that passes (default: 0.05, or the plan's)", metavar="SHARE", least=0, most=10),
    ] = None
    no_answers: Annotated[bool, Option("compare speed alone")] = False
    model: Annotated[str | None, Option("which of the models that a server has", metavar="NAME")] = None
    output: Annotated[str | None, Option("write the report, as JSON", "-o", metavar="FILE")] = None
    evict: Annotated[bool, Option("measure even if a chat must then read its prompt again")] = False
    api_key: Annotated[str | None, Option("for a server that asks for one (or UNSLOW_API_KEY)", metavar="KEY")] = None


def run(request: VerifyRequest) -> int:
    """Measure, judge and show."""
    from unslow.commands._output import ProgressBar, color, width, write
    from unslow.commands.verify.comparison import verify, write_report
    from unslow.show.verify import render_side, render_verify
    from unslow.think.stats.verification import verify_status
    from unslow.think.stats.verification_report import VerifyReport

    render_verify.check_format(request.format)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a limit of time keeps what was measured, as Ctrl-C does
    with ProgressBar(quiet=request.quiet) as progress:
        result = verify(request, progress)
    if not isinstance(result, VerifyReport):
        write(render_side(result, request.format, request.save or "", width=width(), color=color()))
        return 0
    write(render_verify(result, request.format, width=width(), color=color()))
    if request.output:
        write_report(result, request.output)
    return verify_status(result)
