"""Why an offer was chosen, and what was assumed on the way."""

from collections.abc import Iterator, Sequence

import msgspec

from unslow.think.buy.choice_report import OfferShown
from unslow.think.buy.choosing import Aim, low
from unslow.think.buy.prices import SOLD_YEARS
from unslow.think.buy.report import AskedShown

_MUCH = 1.15
"""From so much more on a difference is worth a word."""


def explained(best: OfferShown, others: Sequence[OfferShown], aim: Aim, currency: str) -> OfferShown:
    """The chosen offer with its reasons."""
    return msgspec.structs.replace(best, reasons=tuple(_reasons(best, others, aim, currency)))


def _reasons(best: OfferShown, others: Sequence[OfferShown], aim: Aim, currency: str) -> Iterator[str]:
    speed = best.rig.speed
    if speed is None:
        return
    if aim.goal is not None:
        kind = "nothing has to be bought" if best.total == 0 else "the cheapest that surely reaches the goal"
        yield f"{kind}: {low(best):,.1f} tok/s at the low end, {aim.goal:g} are asked for"
    else:
        yield f"the fastest {'within the budget' if aim.budget is not None else 'of all'} at the low end"
    if best.rig.fits == "whole":
        yield f"the whole model fits in {best.rig.quant}"
    if aim.budget is not None and best.total is not None and best.total < aim.budget:
        yield f"{aim.budget - best.total:,.0f} {currency} of the budget stay"
    yield from _against(best, others)


def _against(best: OfferShown, others: Sequence[OfferShown]) -> Iterator[str]:
    """What the runners-up do better."""
    faster = max(others, key=low, default=None)
    if faster and low(faster) > _MUCH * low(best):
        yield f"faster: {faster.rig.name}, {low(faster) / low(best):.1f} times as fast"
    lean = min((o for o in others if o.rig.tdp_w), key=lambda o: o.rig.tdp_w or 0, default=None)
    if lean and best.rig.tdp_w and (lean.rig.tdp_w or 0) * _MUCH < best.rig.tdp_w:
        yield f"less power: {lean.rig.name}, {lean.rig.tdp_w:.0f} W instead of {best.rig.tdp_w:.0f} W"


def assumptions(aim: Aim, host_price: float, currency: str, asked: AskedShown, have: str) -> tuple[str, ...]:
    """What the answer rests on beside the catalogue."""
    return tuple(_assumptions(aim, host_price, currency, asked, have))


def _assumptions(aim: Aim, host_price: float, currency: str, asked: AskedShown, have: str) -> Iterator[str]:
    users = f" for each of {asked.users} conversations" if asked.users > 1 else ""
    yield f"speed with {asked.context:,} tokens in the context{users}; four of five measurements lie between the ends"
    if host_price:
        yield f"a computer around new cards costs {host_price:,.0f} {currency}"
    elif not have:
        yield "cards go into a computer that is there, with room and power for them: --host-price adds one"
    if aim.budget is not None:
        yield f"a launch price counts for {SOLD_YEARS} years; of older devices only a price that was seen or yours"
