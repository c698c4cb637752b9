"""Compare the cost of tokens: owned hardware, rented hardware or an API.

Set the usage (--tokens-per-day, --hours-per-day or --utilisation) and the hardware (--device). Shipped rents and API
prices are dated and sourced; yours take precedence. All assumptions are listed below the result with their options.

examples:
  unslow cost --model llama-3.3-70b --tokens-per-day 200k --device "2x RTX 3090" --electricity 0.30
  unslow cost --model qwen3-32b --hours-per-day 4 --device "RTX 4090" --price "RTX 4090=1800" --rent "RTX 4090=0.4/h"
  unslow cost --model gpt-oss-120b --tokens-per-day 2m --device "Strix Halo" --api "0.1/0.5 per M" --years 4
  unslow cost --model qwen3-8b --utilisation 0.3 --device here --watts 90 --json

exit status: 0 compared, 1 no device can generate that many tokens, 2 could not run
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._buyer import AMOUNT, Work
from unslow.commands._output import Progress
from unslow.commands._request import Option, function_of
from unslow.facts.errors import UserError

if TYPE_CHECKING:
    from unslow.buy.cost import CostReport

_OWNING, _OTHERS = "owning", "others"


class CostRequest(Work, frozen=True, kw_only=True):
    """What a million tokens cost on your own hardware, rented, or from an API, and when owning pays off.

    Give the usage in one of three ways: tokens_per_day, hours_per_day or utilisation.
    """

    device: Annotated[
        tuple[str, ...], Option("device to own: RTX 3090, 2x RTX 3090, here; repeatable", metavar="NAME")
    ] = ()
    tokens_per_day: Annotated[
        float | None,
        Option("generated tokens per day: 200000, 200k or 2m", metavar="N", kind=AMOUNT, least=1, most=1e12),
    ] = None
    hours_per_day: Annotated[
        float | None, Option("hours per day that the first device is busy", metavar="H", kind=AMOUNT, least=0, most=24)
    ] = None
    utilisation: Annotated[
        float | None,
        Option("share of the day that the first device is busy: 0.2", metavar="SHARE", kind=AMOUNT, least=0, most=1),
    ] = None
    prompt_ratio: Annotated[
        float,
        Option("prompt tokens per generated token (default: 3)", metavar="N", kind=AMOUNT, least=0,
               most=1e4),
    ] = 3.0  # fmt: skip
    electricity: Annotated[
        float | None,
        Option("price per kWh (default: 0.30, assumed)", metavar="AMOUNT", kind=AMOUNT, least=0, most=100,
               group=_OWNING),
    ] = None  # fmt: skip
    years: Annotated[
        float, Option("years of use (default: 3)", metavar="N", kind=AMOUNT, least=0.1, most=30, group=_OWNING)
    ] = 3.0
    resale: Annotated[
        float,
        Option("resale price after that (default: 0)", metavar="AMOUNT", kind=AMOUNT, least=0, most=1e9, group=_OWNING),
    ] = 0.0
    watts: Annotated[
        float | None,
        Option("measured power under load (default: its TDP)", metavar="W", kind=AMOUNT, least=0, most=1e6,
               group=_OWNING),
    ] = None  # fmt: skip
    power_share: Annotated[
        float,
        Option("share of the TDP drawn under load (default: 1)", metavar="SHARE", kind=AMOUNT, least=0.05,
               most=1.5, group=_OWNING),
    ] = 1.0  # fmt: skip
    host_price: Annotated[
        float,
        Option("price of a host computer (default: you have one)", metavar="AMOUNT", kind=AMOUNT, least=0, most=1e9,
               group=_OWNING),
    ] = 0.0  # fmt: skip
    rent: Annotated[tuple[str, ...], Option('hourly rent: "H100=2.5/h"', metavar="NAME=AMOUNT", group=_OTHERS)] = ()
    api: Annotated[
        tuple[str, ...],
        Option('price per million tokens, input/output: "0.5/1.5 per M"', metavar="IN/OUT", group=_OTHERS),
    ] = ()

    def check(self) -> None:
        """UserError where nobody says how much it is used, or in two ways."""
        said = [self.tokens_per_day, self.hours_per_day, self.utilisation]
        if sum(one is not None for one in said) != 1:
            hint = "give one of --tokens-per-day 200000, --hours-per-day 4 and --utilisation 0.2"
            raise UserError("usage is missing", hint)


def answer(request: CostRequest, progress: Progress) -> "CostReport":
    """The comparison of costs."""
    from unslow.buy.cost import cost as compared
    from unslow.look.system.live import LiveSystem

    return compared(LiveSystem(), request, progress)


def run(request: CostRequest) -> int:
    """Compare and show."""
    from unslow.buy.show import render_cost
    from unslow.commands._output import show_answer

    report = show_answer(request, render_cost, answer)
    owned = [way for way in report.ways if way.how == "own"]
    return 1 if owned and not any(way.enough for way in owned) else 0


cost = function_of(CostRequest, answer)
