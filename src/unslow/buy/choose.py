"""Answers `unslow choose`: which card, pair of cards or machine to buy, why, and what would have to give."""

from collections.abc import Iterator, Sequence

import msgspec

from unslow import __version__
from unslow.buy.devices import price_notes, work_notes
from unslow.buy.offers import (
    USUAL_QUANTS,
    Aim,
    ChoiceReport,
    Market,
    OfferShown,
    WayShown,
    chosen,
    coarser_than,
    low,
    market_of,
    rank,
    refusal,
)
from unslow.buy.report import SOLD_YEARS, AskedShown
from unslow.buy.rigs import Rig, read_prices
from unslow.catalog.models import listed_models
from unslow.commands._output import Progress, Silent
from unslow.commands.choose import ChooseRequest
from unslow.commands.models.find import FoundModel
from unslow.facts.values import GB, GIB
from unslow.look.system import System
from unslow.think.blueprints import made_up
from unslow.think.memo import one_judgement
from unslow.think.speed.chips import USUAL_HOST
from unslow.think.speed.report import RateShown

_MUCH = 1.15  # From so much more on a difference is worth a word
_TRIED = 12  # How many of the most promising offers are asked first, to see whether something less would help
_SHORTEST = 2048
_Pairs = Sequence[tuple[Rig, Rig | None]]  # What to buy, and what it stands beside


@one_judgement()
def choose(system: System, request: ChooseRequest, progress: Progress | None = None) -> ChoiceReport:
    """What to buy, the runners-up, and what was refused; what would have to give where nothing will do."""
    purse, _ = read_prices(system, request)
    market = market_of(system, request, purse)
    aim = Aim(request.budget, request.goal, request.partly)
    offers = list(market.offers(aim, progress or Silent()))
    heaps = chosen(offers, aim)
    best = heaps.best
    if best is not None:
        weights = market.in_quant(best.rig.quant).blueprint.weights_bytes
        best = explained(best, heaps.runners_up, aim, purse.currency, weights)
    seen = [offer.rig for offer in (*((best,) if best else ()), *heaps.runners_up)]
    host = float(USUAL_HOST.bytes_per_s) / GB
    said = (
        f"what does not fit lies in the host's memory, which is taken to be large enough and to deliver {host:.0f} GB/s"
    )
    quants = ", ".join(market.quants)
    notes = (f"the finest of {quants} that reaches the goal is taken",) if len(market.quants) > 1 else ()
    return ChoiceReport(
        unslow_version=__version__,
        asked=market.asked,
        budget=request.budget,
        currency=purse.currency,
        goal_tokens_per_s=request.goal,
        have=market.have.name if market.have else "",
        chosen=best,
        runners_up=heaps.runners_up,
        refused=heaps.refused,
        ways=() if best else tuple(ways_out(market, offers, aim)),
        assumptions=(
            *assumptions(aim, request.host_price, purse.currency, market.asked, request.have),
            *((said,) if request.partly else ()),
        ),
        notes=(*work_notes(market.asked), *notes, *price_notes(seen, purse)),
    )


def explained(
    best: OfferShown, others: Sequence[OfferShown], aim: Aim, currency: str, weights_bytes: int = 0
) -> OfferShown:
    """The chosen offer with its reasons; the weights are those in its quant."""
    if best.rig.speed is None:
        return best
    return msgspec.structs.replace(best, reasons=tuple(_reasons(best, others, aim, currency, weights_bytes)))


def _reasons(
    best: OfferShown, others: Sequence[OfferShown], aim: Aim, currency: str, weights_bytes: int
) -> Iterator[str]:
    if aim.goal is None:
        yield f"the fastest {'within the budget' if aim.budget is not None else 'of all'} at the low end"
    else:
        kind = "the cheapest that very likely reaches the goal"
        if best.total is None:
            kind = "the fastest of those that very likely reach the goal, of none of which a price is known"
        elif best.total == 0:
            kind = "nothing has to be bought"
        yield f"{kind}: {low(best):,.1f} tok/s at the low end, {aim.goal:g} are asked for"
    if best.rig.fits == "whole":
        yield f"the whole model fits in {best.rig.quant}"
    elif (beyond := weights_bytes - (best.rig.memory_bytes or 0)) > 0:
        yield f"of the weights in {best.rig.quant} at least {beyond / GIB:,.0f} GiB lie in the host's memory"
    if aim.budget is not None and best.total is not None and best.total < aim.budget:
        yield f"{aim.budget - best.total:,.0f} {currency} of the budget stay"
    if best.rig.count > 1:
        power = f", and a power supply with {best.rig.tdp_w:,.0f} W for them" if best.rig.tdp_w else ""
        yield f"{best.rig.count} cards need a board with as many slots{power}"
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
    return offer.rig.speed.prefill_tokens_per_s if offer.rig.speed else RateShown(low=0.0, mid=0.0, high=0.0)


def assumptions(aim: Aim, host_price: float, currency: str, asked: AskedShown, have: str) -> tuple[str, ...]:
    """What the answer rests on beside the catalogue."""
    users = f" for each of {asked.users} conversations" if asked.users > 1 else ""
    ends = "four of five measurements lie between the ends, one in ten below"
    said = [f"speed with {asked.context:,} tokens in the context{users}; {ends}"]
    if host_price:
        said.append(f"a computer around new cards costs {host_price:,.0f} {currency}")
    elif not have:
        said.append("cards go into a computer that is there, with room and power for them: --host-price adds one")
    if aim.budget is not None:
        said.append(
            f"a launch price counts for {SOLD_YEARS} years; of older devices only a price that was seen or yours"
        )
    return tuple(said)


def ways_out(market: Market, offers: Sequence[OfferShown], aim: Aim) -> Iterator[WayShown]:
    """One way for each thing that can give, where it helps."""
    dear = [o for o in offers if aim.budget is not None and refusal(o, aim) == "too_dear"]
    if dear:
        best = min(dear, key=lambda o: o.total or 0.0)
        yield WayShown(gives="budget", words=f"a budget of {best.total:,.0f} {market.purse.currency}: {_reached(best)}")
    affordable = [
        pair for pair, offer in zip(market.rigs(), offers, strict=True)
        if aim.budget is None or (offer.total is not None and offer.total <= aim.budget)
    ]  # fmt: skip
    for way in (_quant, _context, _host, _model):
        if found := way(market, affordable, aim):
            yield found
    if aim.goal is None:
        return
    within = [o for o in offers if o.rig.speed and refusal(o, aim._replace(goal=None)) is None]
    if within and (best := max(within, key=low)).rig.speed:
        middle = best.rig.speed.each_tokens_per_s.mid
        words = f"a goal of {low(best):,.1f} tok/s: {best.rig.name} in {best.rig.quant}, {middle:,.1f} in the middle"
        yield WayShown(gives="goal", words=words)


def _quant(market: Market, rigs: _Pairs, aim: Aim) -> WayShown | None:
    if market.request.quant or market.quants[-1] not in USUAL_QUANTS:  # what its publisher ships is not made coarser
        return None
    for quant in coarser_than(market.quants):
        if found := _reaching(market, rigs, aim, quant):
            words = f"{quant}, which costs quality: {found.rig.name}, {low(found):,.1f} tok/s at the low end"
            return WayShown(gives="quant", words=f"{words} (--quant-least {quant})")
    return None


def _context(market: Market, rigs: _Pairs, aim: Aim) -> WayShown | None:
    tokens = market.question.depth // 2
    while tokens >= _SHORTEST:
        shorter = market._replace(question=market.question._replace(depth=tokens))
        if found := _reaching(shorter, rigs, aim, market.quants[-1]):
            return WayShown(gives="context", words=f"a context of {tokens:,} tokens: {_reached(found)}")
        tokens //= 2
    return None


def _host(market: Market, rigs: _Pairs, aim: Aim) -> WayShown | None:
    """A part on the host, which models with experts bear best."""
    if market.request.partly:
        return None
    loose = market._replace(request=market.request._replace(partly=True))
    if found := _reaching(loose, rigs, aim, market.quants[-1]):
        return WayShown(gives="host", words=f"a part of it in the host's memory: {_reached(found)} (--partly)")
    return None


def _model(market: Market, rigs: _Pairs, aim: Aim) -> WayShown | None:
    """The largest model of the same family that would do."""
    known = market.found
    if known.source != "catalogue":
        return None
    family = "".join(letter for letter in known.name.split("-")[0] if letter.isalpha())
    smaller = [m for m in listed_models(family) if m.parameters < known.parameters]
    alike = [m for m in smaller if m.shape.context_trained >= market.question.depth]
    by_size = sorted({m.parameters: m for m in reversed(alike)}.values(), key=lambda m: -m.parameters)
    for model in by_size[:6]:
        mix = model.published if model.published in market.quants else market.quants[-1]
        other = FoundModel(model.name, made_up(model, mix), mix, "catalogue", model.parameters)
        if found := _reaching(market._replace(found=other), rigs, aim, mix):
            speed = f"{found.rig.name}, {low(found):,.1f} tok/s at the low end"
            return WayShown(gives="model", words=f"a smaller one of its family, {model.name} in {mix}: {speed}")
    return None


def _reaching(market: Market, rigs: _Pairs, aim: Aim, quant: str) -> OfferShown | None:
    """The cheapest that reaches the goal in that quant; all are asked only where one of the promising does."""
    # The most memory and bandwidth
    by_memory = sorted(rigs, key=lambda pair: -pair[0].number * pair[0].each_bytes)[: _TRIED // 2]
    by_speed = sorted(rigs, key=lambda pair: -pair[0].device.memory_bytes_per_s)[: _TRIED // 2]
    first = list(dict.fromkeys((*by_memory, *by_speed)))
    if not _fine(market, first, aim, quant):
        return None
    return min(_fine(market, rigs, aim, quant), key=lambda offer: rank(offer, aim), default=None)


def _fine(market: Market, rigs: _Pairs, aim: Aim, quant: str) -> list[OfferShown]:
    tried = (market.offer(rig, beside, aim, (quant,)) for rig, beside in rigs)
    return [offer for offer in tried if refusal(offer, aim) is None]


def _reached(offer: OfferShown) -> str:
    return f"{offer.rig.name} in {offer.rig.quant}, {low(offer):,.1f} tok/s at the low end"
