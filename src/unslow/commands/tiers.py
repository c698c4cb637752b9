"""List the largest models that each memory size runs, and their speed.

It considers every well-known model that was trained for the context, and shows the largest of each family, or a later
version of about the same size; models trained for less than 32,768 tokens come last. Speeds are those of a typical
device: the one with the median bandwidth among devices with that memory; for cards, among the cheaper half.

examples:
  unslow tiers
  unslow tiers --memory 8,12,16,24,48 --context 16k
  unslow tiers --memory 24 --quant-least Q6_K --rows 10
  unslow tiers --unified 32,64,128 --json
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._buyer import MEMORY
from unslow.commands._output import Progress
from unslow.commands._request import LongRequest, Option, function_of

if TYPE_CHECKING:
    from unslow.buy.tiers import TiersReport


class TiersRequest(LongRequest, frozen=True, kw_only=True):
    """What each memory size can run: the largest known models that fit, and those that just do not."""

    memory: Annotated[
        tuple[int, ...], Option("VRAM sizes in GB (default: 8,12,16,24,32,48)", metavar="GB,GB", kind=MEMORY)
    ] = ()
    unified: Annotated[
        tuple[int, ...], Option("unified memory sizes in GB (default: 16,32,64,128)", metavar="GB,GB", kind=MEMORY)
    ] = ()
    context: Annotated[
        int, Option("context length that must fit: 8192 (default) or 32k", "-c", metavar="N", least=0, most=2**27)
    ] = 8192
    quant_least: Annotated[str, Option("the smallest acceptable quant (default: Q4_K_M)", metavar="NAME")] = "Q4_K_M"
    rows: Annotated[int, Option("models per size (default: 5)", metavar="N", least=1, most=1000)] = 5


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
