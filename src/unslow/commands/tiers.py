"""Say what each size of memory runs: the largest models that fit whole, their quant, and how fast a typical device is.

Every well-known model that was trained for such a context is gone through; the largest of each family is shown, or a
later version about as large, and what was trained for less than 32,768 tokens last. A typical device is the one of
the middle bandwidth among those with so much memory, of cards those of the cheaper half.

examples:
  unslow tiers
  unslow tiers --memory 8,12,16,24,48 --context 16k
  unslow tiers --memory 24 --quant-least Q6_K --rows 10
  unslow tiers --unified 32,64,128 --json
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._buyer import MEMORY
from unslow.commands._output import Progress
from unslow.commands._request import Option, Told, function_of

if TYPE_CHECKING:
    from unslow.buy.tiers import TiersReport


class TiersRequest(Told, frozen=True, kw_only=True):
    """What can be run on how much memory: the largest well-known models that fit whole, and those that just don't."""

    memory: Annotated[
        tuple[int, ...], Option("of cards (default: 8,12,16,24,32,48)", metavar="GB,GB", kind=MEMORY)
    ] = ()
    unified: Annotated[
        tuple[int, ...], Option("that GPU and host share (default: 16,32,64,128)", metavar="GB,GB", kind=MEMORY)
    ] = ()
    context: Annotated[
        int, Option("tokens that must fit: 8192 (default) or 32k", "-c", metavar="N", least=0, most=2**27)
    ] = 8192
    quant_least: Annotated[str, Option("the coarsest quant that will do (default: Q4_K_M)", metavar="NAME")] = "Q4_K_M"
    rows: Annotated[int, Option("models for each size (default: 5)", metavar="N", least=1, most=1000)] = 5


def answer(request: TiersRequest, progress: Progress) -> "TiersReport":
    """What each size of memory runs."""
    from unslow.buy.tiers import tiers as told
    from unslow.look.system.live import LiveSystem

    return told(LiveSystem(), request, progress)


def run(request: TiersRequest) -> int:
    """Go through all and show."""
    from unslow.buy.show import render_tiers
    from unslow.commands._output import show_answer

    show_answer(request, render_tiers, answer)
    return 0


tiers = function_of(TiersRequest, answer, first="memory")
