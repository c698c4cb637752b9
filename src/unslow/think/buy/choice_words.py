"""Why an offer was chosen, and what was assumed on the way."""

from collections.abc import Iterator, Sequence

import msgspec

from unslow.facts.units import GIB
from unslow.think.buy.choice_report import OfferShown
from unslow.think.buy.choosing import Aim, low
from unslow.think.buy.prices import SOLD_YEARS
from unslow.think.buy.report import AskedShown
from unslow.think.speed.report import RateShown

_MUCH = 1.15
"""From so much more on a difference is worth a word."""


def explained(
    best: OfferShown, others: Sequence[OfferShown], aim: Aim, currency: str, weights_bytes: int = 0
) -> OfferShown:
    """The chosen offer with its reasons; the weights are those in its quant."""
    reasons = () if best.rig.speed is None else _reasons(best, others, aim, currency, weights_bytes)
    return msgspec.structs.replace(best, reasons=tuple(reasons))


def _reasons(
    best: OfferShown, others: Sequence[OfferShown], aim: Aim, currency: str, weights_bytes: int
) -> Iterator[str]:
    yield _why(best, aim)
    if best.rig.fits == "whole":
        yield f"the whole model fits in {best.rig.quant}"
    elif (beyond := weights_bytes - (best.rig.memory_bytes or 0)) > 0:
        yield f"of the weights in {best.rig.quant} at least {beyond / GIB:,.0f} GiB lie in the host's memory"
    if aim.budget is not None and best.total is not None and best.total < aim.budget:
        yield f"{aim.budget - best.total:,.0f} {currency} of the budget stay"
    if best.rig.count > 1:
        power = f", and a power supply with {best.rig.tdp_w:,.0f} W for them" if best.rig.tdp_w else ""
        yield f"{best.rig.count} cards need a board with as many slots{power}"
    yield from _against(best, others)


def _why(best: OfferShown, aim: Aim) -> str:
    if aim.goal is None:
        return f"the fastest {'within the budget' if aim.budget is not None else 'of all'} at the low end"
    kind = "the cheapest that very likely reaches the goal"
    if best.total is None:
        kind = "the fastest of those that very likely reach the goal, of none of which a price is known"
    elif best.total == 0:
        kind = "nothing has to be bought"
    return f"{kind}: {low(best):,.1f} tok/s at the low end, {aim.goal:g} are asked for"


def _against(best: OfferShown, others: Sequence[OfferShown]) -> Iterator[str]:
    """What the runners-up do better."""
    faster = max(others, key=low, default=None)
    if faster and low(faster) > _MUCH * low(best):
        coarser = f" in {faster.rig.quant}" if faster.rig.quant != best.rig.quant else ""
        yield f"faster: {faster.rig.name}{coarser}, {low(faster) / low(best):.1f} times as fast"
    reader = max(others, key=lambda o: _reads(o).low, default=None)
    if reader and _reads(reader).low > _MUCH * _reads(best).mid > 0:
        times = _reads(reader).mid / _reads(best).mid
        yield f"reads prompts faster: {reader.rig.name}, {times:.1f} times as fast"
    lean = min((o for o in others if o.rig.tdp_w), key=lambda o: o.rig.tdp_w or 0, default=None)
    if lean and best.rig.tdp_w and (lean.rig.tdp_w or 0) * _MUCH < best.rig.tdp_w:
        yield f"less power: {lean.rig.name}, {lean.rig.tdp_w:.0f} W instead of {best.rig.tdp_w:.0f} W"


def _reads(offer: OfferShown) -> RateShown:
    """Prompt tokens of a second."""
    return offer.rig.speed.prefill_tokens_per_s if offer.rig.speed else RateShown(low=0.0, mid=0.0, high=0.0)


def assumptions(aim: Aim, host_price: float, currency: str, asked: AskedShown, have: str) -> tuple[str, ...]:
    """What the answer rests on beside the catalogue."""
    return tuple(_assumptions(aim, host_price, currency, asked, have))


def _assumptions(aim: Aim, host_price: float, currency: str, asked: AskedShown, have: str) -> Iterator[str]:
    users = f" for each of {asked.users} conversations" if asked.users > 1 else ""
    ends = "four of five measurements lie between the ends, one in ten below"
    yield f"speed with {asked.context:,} tokens in the context{users}; {ends}"
    if host_price:
        yield f"a computer around new cards costs {host_price:,.0f} {currency}"
    elif not have:
        yield "cards go into a computer that is there, with room and power for them: --host-price adds one"
    if aim.budget is not None:
        yield f"a launch price counts for {SOLD_YEARS} years; of older devices only a price that was seen or yours"
