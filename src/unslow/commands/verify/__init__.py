"""Prove a change: compare speed and answers before and after.

BEFORE and AFTER are running servers (URL or process id), or command lines that start them: those are started on
loopback, alternately, or with --together at the same time, and stopped again. Each round sends both the same requests,
in changing order. A speed-up that changed the answers does not count: greedy answers and, if the runtime returns
probabilities, the perplexity of a text are compared as well.

examples:
  unslow verify --before http://127.0.0.1:8080 --after http://127.0.0.1:8081
  unslow verify --before "llama-server -m model.gguf" --after "llama-server -m model.gguf -ctk q8_0 -ctv q8_0 -fa on"
  unslow verify --plan plan.json --option 2
  unslow verify --save before.json http://127.0.0.1:8080      (then change and restart it by hand)
  unslow verify --against before.json http://127.0.0.1:8080
  unslow verify --save before.json --plan plan.json           (the server that the plan was made for)

exit status: 0 faster or the same, 1 slower, broken or changed answers, 2 could not run, 3 cannot tell speed or answers
"""

import signal
from typing import Annotated

from unslow.commands._request import LongRequest, Option


class VerifyRequest(LongRequest, frozen=True, kw_only=True):
    """Two servers, or one server and a saved result."""

    target: Annotated[
        str | None,
        Option("the server for --save and --against; otherwise the same as --after", metavar="TARGET", positional=True),
    ] = None
    before: Annotated[
        str | None,
        Option("before the change: URL of a running server, or the command that starts it", metavar="URL|LINE"),
    ] = None
    after: Annotated[str | None, Option("after the change", metavar="URL|LINE")] = None
    plan: Annotated[
        str | None,
        Option("plan written by `unslow plan --json`: compares its current command with an option", metavar="FILE"),
    ] = None
    option: Annotated[
        int | None,
        Option("option of the plan, from 0 as in the JSON (default: the recommended one)", metavar="N", least=0,
               most=10_000),
    ] = None  # fmt: skip
    save: Annotated[str | None, Option("measure one server and save the result, to compare later", metavar="FILE")] = (
        None
    )
    against: Annotated[str | None, Option("measure one server and compare with a saved result", metavar="FILE")] = None
    prompt: Annotated[
        int | None, Option("prompt tokens (default: 128, or the plan's)", metavar="N", least=1, most=1_000_000)
    ] = None
    kept: Annotated[
        int | None, Option("tokens already in the KV cache (default: 0)", metavar="N", least=0, most=1_000_000)
    ] = None
    answer: Annotated[int | None, Option("generated tokens (default: 128)", metavar="N", least=8, most=32_768)] = None
    seconds: Annotated[
        float, Option("time budget, server starts included (default: 120)", metavar="N", least=1, most=86_400)
    ] = 120.0
    together: Annotated[bool, Option("run both command lines at the same time, if both fit")] = False
    allow: Annotated[
        float | None,
        Option("allowed perplexity increase (default: 0.05, or the plan's)", metavar="SHARE", least=0, most=10),
    ] = None
    no_answers: Annotated[bool, Option("compare speed only")] = False
    model: Annotated[str | None, Option("which of the server's models", metavar="NAME")] = None
    output: Annotated[str | None, Option("write the report as JSON", "-o", metavar="FILE")] = None
    evict: Annotated[bool, Option("measure even if it evicts a conversation's prompt cache")] = False
    api_key: Annotated[str | None, Option("API key for the server (or UNSLOW_API_KEY)", metavar="KEY")] = None


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
