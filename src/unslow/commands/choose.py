"""Recommend hardware for a model, a budget and a target speed.

With a goal, the cheapest offer that very likely reaches it is chosen, in the finest quant that does, down to
--quant-least: the low end of the prediction counts. Without a goal, the fastest offer within the budget in that quant.
A device without a known price is left out under a budget: set one with --price.

examples:
  unslow choose --model qwen3-32b --budget 1500 --goal "20 tok/s"
  unslow choose --model gpt-oss-120b --context 32k --budget 4000 --goal 15 --host-price 800
  unslow choose --model llama-3.3-70b --budget 1000 --have "RTX 3090" --price "RTX 3090=700"
  unslow choose --model qwen3-32b --goal 15 --among apple --price "M4 Max 64GB=3500"
  unslow choose --model qwen3-8b --goal 30 --users 4 --quant-least Q6_K --json

exit status: 0 chosen, 1 nothing reaches the goal, 2 could not run
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._buyer import AMOUNT, GOAL, Work
from unslow.commands._output import Progress
from unslow.commands._request import Option, function_of

if TYPE_CHECKING:
    from unslow.buy.offers import ChoiceReport


class ChooseRequest(Work, frozen=True, kw_only=True):
    """Which card, pair of cards or machine to buy for a model, with reasons, runners-up and rejected ones."""

    budget: Annotated[
        float | None, Option("maximum price (default: none)", metavar="AMOUNT", kind=AMOUNT, least=0, most=1e9)
    ] = None
    goal: Annotated[
        float | None,
        Option('minimum speed per conversation: "20 tok/s" (default: the fastest)', metavar="SPEED", kind=GOAL,
               least=0, most=1e6),
    ] = None  # fmt: skip
    quant_least: Annotated[str, Option("the smallest acceptable quant (default: Q4_K_M)", metavar="NAME")] = "Q4_K_M"
    have: Annotated[
        str, Option("hardware you own, or `here`: rated alone and with one more device", metavar="DEVICE")
    ] = ""
    among: Annotated[
        tuple[str, ...], Option("only these devices, or a vendor's: apple; repeatable", metavar="DEVICE")
    ] = ()
    partly: Annotated[bool, Option("include devices that hold only part of the model, the rest in host memory")] = False
    host_price: Annotated[
        float,
        Option("price of a computer for new cards (default: you have one)", metavar="AMOUNT", kind=AMOUNT, least=0,
               most=1e9, seldom=True),
    ] = 0.0  # fmt: skip


def answer(request: ChooseRequest, progress: Progress) -> "ChoiceReport":
    """The choice."""
    from unslow.buy.choose import choose as chosen
    from unslow.look.system.live import LiveSystem

    return chosen(LiveSystem(), request, progress)


def run(request: ChooseRequest) -> int:
    """Choose and show."""
    from unslow.buy.show import render_choose
    from unslow.commands._output import show_answer

    return 0 if show_answer(request, render_choose, answer).chosen else 1


choose = function_of(ChooseRequest, answer)
