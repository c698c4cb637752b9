"""What would have to give where nothing reaches the goal within the budget."""

from collections.abc import Iterator, Sequence

from unslow.app.buy.market import USUAL_QUANTS, Market, coarser_than
from unslow.app.fit.models import Found
from unslow.catalog.model_names import listed
from unslow.catalog.models import WellKnown
from unslow.think.blueprints.made_up import made_up
from unslow.think.buy.choice_report import OfferShown, WayShown
from unslow.think.buy.choosing import Aim, low, rank, refusal
from unslow.think.buy.rigs import Rig

_TRIED = 12
"""How many of the most promising offers are asked first, to see whether something less would help."""
_MODELS = 6
_SHORTEST = 2048

_Pairs = Sequence[tuple[Rig, Rig | None]]
"""What to buy, and what it stands beside."""


def ways_out(market: Market, offers: Sequence[OfferShown], aim: Aim) -> Iterator[WayShown]:
    """One way for each thing that can give, where it helps."""
    yield from _budget(offers, aim, market)
    affordable = _affordable(market, offers, aim)
    for way in (_quant, _context, _host, _model):
        if found := way(market, affordable, aim):
            yield found
    yield from _goal(offers, aim)


def _budget(offers: Sequence[OfferShown], aim: Aim, market: Market) -> Iterator[WayShown]:
    if aim.budget is None:
        return
    dear = [o for o in offers if refusal(o, aim) == "too_dear"]
    if dear:
        best = min(dear, key=lambda o: o.total or 0.0)
        words = f"a budget of {best.total:,.0f} {market.purse.currency}: {best.rig.name} in {best.rig.quant}"
        yield WayShown(gives="budget", words=f"{words}, {low(best):,.1f} tok/s at the low end")


def _affordable(market: Market, offers: Sequence[OfferShown], aim: Aim) -> _Pairs:
    """What could be paid."""
    return [
        pair for pair, offer in zip(market.rigs(), offers, strict=True)
        if aim.budget is None or (offer.total is not None and offer.total <= aim.budget)
    ]  # fmt: skip


def _promising(pairs: _Pairs) -> _Pairs:
    """The most memory and bandwidth."""
    by_memory = sorted(pairs, key=lambda pair: -pair[0].number * pair[0].each_bytes)[: _TRIED // 2]
    by_speed = sorted(pairs, key=lambda pair: -pair[0].device.memory_bytes_per_s)[: _TRIED // 2]
    return list(dict.fromkeys((*by_memory, *by_speed)))


def _reaching(market: Market, rigs: _Pairs, aim: Aim, quant: str) -> OfferShown | None:
    """The cheapest that reaches the goal in that quant; all are asked only where one of the promising does."""
    first = _promising(rigs)
    if not _fine(market, first, aim, quant):
        return None
    return min(_fine(market, rigs, aim, quant), key=lambda offer: rank(offer, aim), default=None)


def _fine(market: Market, rigs: _Pairs, aim: Aim, quant: str) -> list[OfferShown]:
    tried = (market.offer(rig, beside, aim, (quant,)) for rig, beside in rigs)
    return [offer for offer in tried if refusal(offer, aim) is None]


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
            words = f"a context of {tokens:,} tokens: {found.rig.name} in {found.rig.quant}"
            return WayShown(gives="context", words=f"{words}, {low(found):,.1f} tok/s at the low end")
        tokens //= 2
    return None


def _host(market: Market, rigs: _Pairs, aim: Aim) -> WayShown | None:
    """A part on the host, which models with experts bear best."""
    if market.request.partly:
        return None
    loose = market._replace(request=market.request._replace(partly=True))
    found = _reaching(loose, rigs, aim, market.quants[-1])
    if found is None:
        return None
    words = f"a part of it in the host's memory: {found.rig.name} in {found.rig.quant}"
    return WayShown(gives="host", words=f"{words}, {low(found):,.1f} tok/s at the low end (--partly)")


def _model(market: Market, rigs: _Pairs, aim: Aim) -> WayShown | None:
    """The largest model of the same family that would do."""
    for model in _smaller(market.found, market.question.depth):
        mix = model.published if model.published in market.quants else market.quants[-1]
        other = Found(model.name, made_up(model, mix), mix, "catalogue", model.parameters)
        if found := _reaching(market._replace(found=other), rigs, aim, mix):
            speed = f"{found.rig.name}, {low(found):,.1f} tok/s at the low end"
            return WayShown(gives="model", words=f"a smaller one of its family, {model.name} in {mix}: {speed}")
    return None


def _smaller(found: Found, context: int) -> list[WellKnown]:
    if found.source != "catalogue":
        return []
    family = "".join(letter for letter in found.name.split("-")[0] if letter.isalpha())
    alike = [m for m in listed(family) if m.parameters < found.parameters and m.shape.context_trained >= context]
    by_size = sorted({m.parameters: m for m in reversed(alike)}.values(), key=lambda m: -m.parameters)
    return by_size[:_MODELS]


def _goal(offers: Sequence[OfferShown], aim: Aim) -> Iterator[WayShown]:
    """What the fastest within the budget gives."""
    if aim.goal is None:
        return
    within = [o for o in offers if o.rig.speed and refusal(o, aim._replace(goal=None)) is None]
    if within and (best := max(within, key=low)).rig.speed:
        middle = best.rig.speed.each_tokens_per_s.mid
        words = f"a goal of {low(best):,.1f} tok/s: {best.rig.name} in {best.rig.quant}, {middle:,.1f} in the middle"
        yield WayShown(gives="goal", words=words)
