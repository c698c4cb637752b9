"""Check whether a claimed speed, size or fit is possible, with the arithmetic.

CLAIM is free text: a model, a device, and what is said about them. `-` reads it from standard input; --file reads a
text in which every sentence and every table cell is a separate claim. The verdict is possible, unlikely (just below a
limit, or only with unstated settings), impossible, or cannot tell.

examples:
  unslow check "Llama 3.3 70B Q4_K_M on an RTX 4090 at 72 tok/s"
  unslow check "Llama 3 8B at 32K context needs 16 GB of KV cache"
  unslow check "70B Q4 fits in 24 GB"
  unslow check "-ngl 33 for a 70B puts everything on the GPU"
  unslow check --file notes.md --json

exit status: 0 possible, 1 impossible or unlikely, 2 could not run, 3 cannot tell
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._request import Option, ShownRequest
from unslow.facts.errors import UserError

if TYPE_CHECKING:
    from unslow.think.claims.report import CheckReport


class CheckRequest(ShownRequest, frozen=True, kw_only=True):
    """Whether a claim of a speed, a size or a fit is possible, with the arithmetic."""

    claim: Annotated[
        tuple[str, ...], Option("the claim, or - for standard input", metavar="CLAIM", positional=True)
    ] = ()
    file: Annotated[str | None, Option("check every sentence of a text file; - for standard input", metavar="FILE")] = (
        None
    )
    all: Annotated[bool, Option("with --file: show the possible ones too")] = False


def run(request: CheckRequest) -> int:
    """Judge and show."""
    from unslow.commands._output import color, width, write
    from unslow.commands.check.claims import answer, read_claims
    from unslow.look.system.live import LiveSystem
    from unslow.show.check import render_check

    render_check.check_format(request.format)
    claim = " ".join(request.claim)
    if request.file and claim:
        raise UserError("CLAIM and --file are mutually exclusive", "give only one of them")
    source = request.file or ("-" if claim == "-" else "")
    text = read_claims(LiveSystem(), source) if source else claim
    report = answer(text, several=bool(request.file))
    everything = request.all or not request.file
    write(render_check(report, request.format, width=width(), color=color(), everything=everything))
    return {"possible": 0, "unlikely": 1, "impossible": 1, "cannot_tell": 3}[report.verdict]


def check(claim: str, *, several: bool = False) -> "CheckReport":
    """Whether a claim of a speed, a size or a fit is possible, with the arithmetic.

    claim: free text, such as "Llama 3.3 70B at Q4_K_M fits in 24 GB"
    several: every sentence and every cell of a table in the text is a claim of its own
    """
    from unslow.commands.check.claims import answer

    return answer(claim, several=several)
