"""What to buy, and devices side by side, as parts of the page."""

from collections.abc import Sequence

from unslow.show._html.buyers_costs import cost, tiers
from unslow.show._html.buyers_parts import between, by_field, money, notes, price, table, users
from unslow.show._html.markup import NOTHING, Child, Markup, joined, sentence, tag
from unslow.show._units import size
from unslow.think.buy.choice_report import ChoiceReport, OfferShown, RefusedShown
from unslow.think.buy.report import DevicesReport, RigShown

__all__ = ["choose", "cost", "devices", "tiers"]

FITS = {"whole": "✓ fits", "partly": "! in part", "no": "✗ does not fit", "unknown": "? unknown"}
_HEADS = ("Device", "Memory", "Fits", "Answers, tok/s", "Prompts, tok/s", "Price", "Per tok/s", "Watts")


def devices(report: DevicesReport) -> Markup:
    """Devices side by side."""
    asked = report.asked
    lead = f"{asked.model} {asked.quant}, context {asked.context:,}, {users(asked.users)}" if asked else "The catalogue"
    rows = [_device(rig, report.currency) for rig in report.devices]
    return joined([tag("p", lead, class_="quiet"), table("Devices side by side", _HEADS, rows), notes(report.notes)])


def choose(report: ChoiceReport) -> Markup:
    """What to buy, the runners-up, what was refused, and what would have to give."""
    best = report.chosen
    head = _best(best, report) if best else _nothing(report)
    reasons = notes([*best.reasons, *best.rig.notes]) if best else NOTHING
    offers = [offer for offer in (best, *report.runners_up) if offer]
    heads = (_HEADS[0], "To pay", "Quant", *_HEADS[1:5], _HEADS[-1])
    rows = [_offer(offer, report.currency, first=offer is best) for offer in offers]
    shown = table("The choice and the runners-up", heads, rows) if rows else NOTHING
    said = notes([*report.assumptions, *report.notes])
    return joined([head, _asked(report), reasons, shown, _refused(report.refused, report.currency), said])


def _best(offer: OfferShown, report: ChoiceReport) -> Markup:
    pay = {None: ", whose price is not known", 0.0: ", with nothing to pay"}
    said = pay.get(offer.total, f" for {money(offer.total, report.currency)}")
    return tag("p", tag("strong", offer.rig.name), said, class_="best")


def _asked(report: ChoiceReport) -> Markup:
    asked = report.asked
    each = " each" if asked.users > 1 else ""
    goal = f", goal {report.goal_tokens_per_s:g} tok/s{each}" if report.goal_tokens_per_s else ""
    budget = f", {money(report.budget, report.currency)} at most" if report.budget is not None else ""
    lead = f"{asked.model}, context {asked.context:,}, {users(asked.users)}{goal}{budget}"
    return tag("p", lead, class_="quiet")


def _nothing(report: ChoiceReport) -> Markup:
    said = tag("strong", "Nothing of the catalogue does it.")
    if not report.ways:
        return tag("p", said, " What was refused says why.")
    ways = tag("ul", *(tag("li", sentence(by_field(way.words))) for way in report.ways))
    return joined([tag("p", said, " What would have to give:"), ways])


def _offer(offer: OfferShown, currency: str, *, first: bool) -> list[Child]:
    rig = offer.rig
    name = tag("strong", rig.name) if first else rig.name
    return [name, money(offer.total, currency), rig.quant, *_rig(rig), _watts(rig)]


def _refused(refused: Sequence[RefusedShown], currency: str) -> Markup:
    if not refused:
        return NOTHING
    items = [
        tag("li", sentence(by_field(f"{heap.count:,}: {heap.words}")), _nearest(heap, currency)) for heap in refused
    ]
    return tag("details", tag("summary", "What was refused, and why"), tag("ul", *items))


def _nearest(heap: RefusedShown, currency: str) -> Markup:
    names = [f"{offer.rig.name} ({money(offer.total, currency)})" for offer in heap.nearest]
    return tag("small", f" Nearest: {', '.join(names)}.") if names else NOTHING


def _device(rig: RigShown, currency: str) -> list[Child]:
    each = money(rig.price_per_token_per_s, currency) if rig.price_per_token_per_s else "-"
    return [rig.name, *_rig(rig), price(rig.price), each, _watts(rig)]


def _watts(rig: RigShown) -> str:
    return f"{rig.tdp_w:,.0f}" if rig.tdp_w else "-"


def _rig(rig: RigShown) -> list[Child]:
    """Memory, whether it fits, and the two speeds: of one conversation, and of reading."""
    memory = size(rig.memory_bytes) if rig.memory_bytes else "-"
    if not rig.speed:
        return [memory, joined([FITS[rig.fits], tag("small", rig.reason) if rig.reason else NOTHING]), "-", "-"]
    return [memory, FITS[rig.fits], between(rig.speed.each_tokens_per_s), between(rig.speed.prefill_tokens_per_s)]
