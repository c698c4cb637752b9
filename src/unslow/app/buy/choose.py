"""Answers `unslow choose`: which card, pair of cards or machine to buy for a model, a budget and a speed."""

from unslow import __version__
from unslow.app.buy.market import Market, market_of
from unslow.app.buy.purse import purse_of, read_told
from unslow.app.buy.ways import ways_out
from unslow.app.progress import Progress, Silent
from unslow.commands.choose import ChooseRequest
from unslow.facts.units import GB
from unslow.look.system import System
from unslow.think.adapt.remembered import one_judgement
from unslow.think.buy.choice_report import ChoiceReport, OfferShown
from unslow.think.buy.choice_words import assumptions, explained
from unslow.think.buy.choosing import Aim, Chosen, chosen
from unslow.think.buy.devices import price_notes, work_notes
from unslow.think.speed.chips import USUAL_HOST


@one_judgement()
def choose(system: System, request: ChooseRequest, progress: Progress | None = None) -> ChoiceReport:
    """What to buy, the runners-up, and what was refused; what would have to give where nothing will do."""
    told = read_told(system, request.prices)
    purse = purse_of(system, told, request.price, request.currency)
    market = market_of(system, request, purse)
    aim = Aim(request.budget, request.goal, request.partly)
    offers = list(market.offers(aim, progress or Silent()))
    heaps = chosen(offers, aim)
    best = _explained(heaps, market, aim)
    seen = [offer.rig for offer in (*((best,) if best else ()), *heaps.runners_up)]
    return ChoiceReport(
        unslow_version=__version__,
        asked=market.shown,
        budget=request.budget,
        currency=purse.currency,
        goal_tokens_per_s=request.goal,
        have=market.have.name if market.have else "",
        chosen=best,
        runners_up=heaps.runners_up,
        refused=heaps.refused,
        ways=() if best else tuple(ways_out(market, offers, aim)),
        assumptions=(
            *assumptions(aim, request.host_price, purse.currency, market.shown, request.have),
            *_partly(request),
        ),
        notes=(*work_notes(market.shown), *_notes(market), *price_notes(seen, purse)),
    )


def _explained(heaps: Chosen, market: Market, aim: Aim) -> OfferShown | None:
    best = heaps.best
    if best is None:
        return None
    weights = sum(tensor.bytes for tensor in market.in_quant(best.rig.quant).blueprint.tensors)
    return explained(best, heaps.runners_up, aim, market.purse.currency, weights)


def _partly(request: ChooseRequest) -> tuple[str, ...]:
    host = float(USUAL_HOST.bytes_per_s) / GB
    said = (
        f"what does not fit lies in the host's memory, which is taken to be large enough and to deliver {host:.0f} GB/s"
    )
    return (said,) if request.partly else ()


def _notes(market: Market) -> tuple[str, ...]:
    quants = ", ".join(market.quants)
    return (f"the finest of {quants} that reaches the goal is taken",) if len(market.quants) > 1 else ()
