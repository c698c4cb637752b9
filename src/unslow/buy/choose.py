"""Answers `unslow choose`: which card, pair of cards or machine to buy, why, and what would have to give."""

from collections.abc import Iterator, Sequence

import msgspec

from unslow import __version__
from unslow.buy import offers
from unslow.buy.devices import price_notes, work_notes
from unslow.buy.offers import Aim, Market, OfferShown, WayShown, low_rate
from unslow.buy.report import SOLD_YEARS, AskedShown
from unslow.buy.rigs import HERE, Rig, find_work, parse_rig, read_prices, rig_here
from unslow.catalog.models import listed_models
from unslow.catalog.quants import find_mix
from unslow.commands._output import Progress, Silent
from unslow.commands.choose import ChooseRequest
from unslow.commands.models.find import FoundModel
from unslow.facts.values import GB, GIB
from unslow.look.system import System
from unslow.think.blueprints import made_up
from unslow.think.memo import one_judgement
from unslow.think.speed.question import USUAL_HOST
from unslow.think.speed.report import RateShown

_MUCH = 1.15  # From so much more on a difference is worth a word
_TRIED = 12  # How many of the most promising offers are asked first, to see whether something less would help
_SHORTEST = 2048
_Pairs = Sequence[tuple[Rig, Rig | None]]  # What to buy, and what it stands beside


@one_judgement()
def choose(system: System, request: ChooseRequest, progress: Progress | None = None) -> offers.ChoiceReport:
    """What to buy, the runners-up, and what was refused; what would have to give where nothing will do."""
    prices, _ = read_prices(system, request)
    found, question, asked = find_work(system, request)
    have = rig_here(system) if request.have.casefold() in HERE else parse_rig(request.have) if request.have else None
    market = Market(request, prices, found, question, offers.quants_of(found, request), have, asked)
    aim = Aim(request.budget, request.goal, request.partly)
    every = list(market.offers(aim, progress or Silent()))
    choice = offers.choose_offer(every, aim)
    best = choice.best
    if best is not None:
        weights = market.in_quant(best.rig.quant).blueprint.weights_bytes
        why = reasons(best, choice.runners_up, aim, prices.currency, weights)
        best = msgspec.structs.replace(best, reasons=tuple(why))
    seen = [offer.rig for offer in (*((best,) if best else ()), *choice.runners_up)]
    host = float(USUAL_HOST.bytes_per_s) / GB
    said = f"layers that do not fit run from host memory (assumed large enough, {host:.0f} GB/s)"
    quants = ", ".join(market.quants)
    notes = (f"quant: the finest of {quants} that reaches the goal",) if len(market.quants) > 1 else ()
    return offers.ChoiceReport(
        unslow_version=__version__,
        asked=asked,
        budget=request.budget,
        currency=prices.currency,
        goal_tokens_per_s=request.goal,
        have=have.name if have else "",
        chosen=best,
        runners_up=choice.runners_up,
        refused=choice.refused,
        ways=() if best else tuple(ways_out(market, every, aim)),
        assumptions=(
            *assumptions(aim, request.host_price, prices.currency, asked, request.have),
            *((said,) if request.partly else ()),
        ),
        notes=(*work_notes(asked), *notes, *price_notes(seen, prices)),
    )


def reasons(
    best: OfferShown, others: Sequence[OfferShown], aim: Aim, currency: str, weights_bytes: int = 0
) -> Iterator[str]:
    """Why this offer was chosen; the weights are those in its quant."""
    if aim.goal is None:
        yield f"the fastest {'within the budget' if aim.budget is not None else 'of all'} at the low end"
    else:
        kind = "the cheapest that should reach the goal"
        if best.total is None:
            kind = "the fastest of those that should reach the goal; none has a known price"
        elif best.total == 0:
            kind = "nothing to buy"
        yield f"{kind}: {low_rate(best):,.1f} tok/s at the low end, goal {aim.goal:g}"
    if best.rig.fits == "whole":
        yield f"the whole model fits in {best.rig.quant}"
    elif (beyond := weights_bytes - (best.rig.memory_bytes or 0)) > 0:
        yield f"at least {beyond / GIB:,.0f} GiB of the {best.rig.quant} weights stay in host memory"
    if aim.budget is not None and best.total is not None and best.total < aim.budget:
        yield f"{aim.budget - best.total:,.0f} {currency} under budget"
    if best.rig.count > 1:
        power = f" and a power supply with {best.rig.tdp_w:,.0f} W for the GPUs" if best.rig.tdp_w else ""
        yield f"{best.rig.count} cards need a motherboard with {best.rig.count} slots{power}"
    faster = max(others, key=low_rate, default=None)
    if faster and low_rate(faster) > _MUCH * low_rate(best):
        coarser = f" in {faster.rig.quant}" if faster.rig.quant != best.rig.quant else ""
        yield f"faster alternative: {faster.rig.name}{coarser}, {low_rate(faster) / low_rate(best):.1f}x"
    reader = max(others, key=lambda o: _prefill_rate(o).low, default=None)
    if reader and _prefill_rate(reader).low > _MUCH * _prefill_rate(best).mid > 0:
        times = _prefill_rate(reader).mid / _prefill_rate(best).mid
        yield f"faster prefill: {reader.rig.name}, {times:.1f}x"
    lean = min((o for o in others if o.rig.tdp_w), key=lambda o: o.rig.tdp_w or 0, default=None)
    if lean and best.rig.tdp_w and (lean.rig.tdp_w or 0) * _MUCH < best.rig.tdp_w:
        yield f"lower power: {lean.rig.name}, {lean.rig.tdp_w:.0f} W instead of {best.rig.tdp_w:.0f} W"


def _prefill_rate(offer: OfferShown) -> RateShown:
    return offer.rig.speed.prefill_tokens_per_s if offer.rig.speed else RateShown(low=0.0, mid=0.0, high=0.0)


def assumptions(aim: Aim, host_price: float, currency: str, asked: AskedShown, have: str) -> tuple[str, ...]:
    """What the answer rests on beside the catalog."""
    users = f" in each of {asked.users} concurrent requests" if asked.users > 1 else ""
    ends = "80 % of measurements fall within the interval, 10 % below it"
    said = [f"speed with {asked.context:,} tokens of context{users}; {ends}"]
    if host_price:
        said.append(f"a computer for new cards costs {host_price:,.0f} {currency}")
    elif not have:
        cost = "--host-price adds the cost of one"
        said.append(f"cards go into an existing computer with free slots and enough power ({cost})")
    if aim.budget is not None:
        said.append(f"launch prices count for {SOLD_YEARS} years; older devices need a seen price or yours (--price)")
    return tuple(said)


def ways_out(market: Market, every: Sequence[OfferShown], aim: Aim) -> Iterator[WayShown]:
    """One way for each thing that can give, where it helps."""
    dear = [o for o in every if aim.budget is not None and offers.refusal(o, aim) == "too_dear"]
    if dear:
        best = min(dear, key=lambda o: o.total or 0.0)
        words = f"a budget of {best.total:,.0f} {market.prices.currency}: {_offer_words(best)}"
        yield WayShown(gives="budget", words=words)
    affordable = [
        pair for pair, offer in zip(market.pairs(), every, strict=True)
        if aim.budget is None or (offer.total is not None and offer.total <= aim.budget)
    ]  # fmt: skip
    for way in (_coarser_quant_way, _shorter_context_way, _host_memory_way, _smaller_model_way):
        if found := way(market, affordable, aim):
            yield found
    if aim.goal is None:
        return
    within = [o for o in every if o.rig.speed and offers.refusal(o, aim._replace(goal=None)) is None]
    if within and (best := max(within, key=low_rate)).rig.speed:
        middle = best.rig.speed.each_tokens_per_s.mid
        words = f"a goal of {low_rate(best):,.1f} tok/s: {best.rig.name} in {best.rig.quant}, expected {middle:,.1f}"
        yield WayShown(gives="goal", words=words)


def _coarser_quant_way(market: Market, rigs: _Pairs, aim: Aim) -> WayShown | None:
    usual = offers.USUAL_QUANTS
    if market.request.quant or market.quants[-1] not in usual:  # what its publisher ships is not made coarser
        return None
    below = min(find_mix(quant).bits_per_weight for quant in market.quants)
    for quant in (quant for quant in usual if find_mix(quant).bits_per_weight < below):
        if found := _cheapest_reaching(market, rigs, aim, quant):
            words = f"{quant}, at some loss of quality: {found.rig.name}, {low_rate(found):,.1f} tok/s at the low end"
            return WayShown(gives="quant", words=f"{words} (--quant-least {quant})")
    return None


def _shorter_context_way(market: Market, rigs: _Pairs, aim: Aim) -> WayShown | None:
    tokens = market.question.depth // 2
    while tokens >= _SHORTEST:
        shorter = market._replace(question=market.question._replace(depth=tokens))
        if found := _cheapest_reaching(shorter, rigs, aim, market.quants[-1]):
            return WayShown(gives="context", words=f"a context length of {tokens:,} tokens: {_offer_words(found)}")
        tokens //= 2
    return None


def _host_memory_way(market: Market, rigs: _Pairs, aim: Aim) -> WayShown | None:
    """A part on the host, which models with experts bear best."""
    if market.request.partly:
        return None
    loose = market._replace(request=market.request._replace(partly=True))
    if found := _cheapest_reaching(loose, rigs, aim, market.quants[-1]):
        return WayShown(gives="host", words=f"part of the model in host memory: {_offer_words(found)} (--partly)")
    return None


def _smaller_model_way(market: Market, rigs: _Pairs, aim: Aim) -> WayShown | None:
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
        if found := _cheapest_reaching(market._replace(found=other), rigs, aim, mix):
            speed = f"{found.rig.name}, {low_rate(found):,.1f} tok/s at the low end"
            return WayShown(gives="model", words=f"a smaller model of the family, {model.name} in {mix}: {speed}")
    return None


def _cheapest_reaching(market: Market, rigs: _Pairs, aim: Aim, quant: str) -> OfferShown | None:
    """The cheapest that reaches the goal in that quant; all are asked only where one of the promising does."""
    # The most memory and bandwidth
    by_memory = sorted(rigs, key=lambda pair: -pair[0].number * pair[0].each_bytes)[: _TRIED // 2]
    by_speed = sorted(rigs, key=lambda pair: -pair[0].device.memory_bytes_per_s)[: _TRIED // 2]
    fine: list[OfferShown] = []
    for tried in (dict.fromkeys((*by_memory, *by_speed)), rigs):
        asked = (market.offer(rig, beside, aim, (quant,)) for rig, beside in tried)
        fine = [offer for offer in asked if offers.refusal(offer, aim) is None]
        if not fine:
            return None
    return min(fine, key=lambda offer: offers.offer_rank(offer, aim))


def _offer_words(offer: OfferShown) -> str:
    return f"{offer.rig.name} in {offer.rig.quant}, {low_rate(offer):,.1f} tok/s at the low end"
