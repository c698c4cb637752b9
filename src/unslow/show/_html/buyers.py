"""What to buy, and devices side by side, as parts of the page."""

from collections.abc import Sequence

from unslow.show._html.buyers_costs import cost, tiers
from unslow.show._html.buyers_parts import between, money, notes, price, table, users
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
    head = _best(best, report.currency) if best else _nothing(report)
    reasons = notes(best.reasons) if best else NOTHING
    offers = [offer for offer in (best, *report.runners_up) if offer]
    heads = (_HEADS[0], "To pay", *_HEADS[1:5])
    rows = [_offer(offer, report.currency, first=offer is best) for offer in offers]
    shown = table("The choice and the runners-up", heads, rows) if rows else NOTHING
    said = notes([*report.assumptions, *report.notes])
    return joined([head, reasons, shown, _refused(report.refused, report.currency), said])


def _best(offer: OfferShown, currency: str) -> Markup:
    return tag("p", tag("strong", offer.rig.name), f" for {money(offer.total, currency)}", class_="best")


def _nothing(report: ChoiceReport) -> Markup:
    ways = tag("ul", *(tag("li", sentence(way.words)) for way in report.ways)) if report.ways else NOTHING
    return joined([tag("p", tag("strong", "Nothing of the catalogue does it."), " What would have to give:"), ways])


def _offer(offer: OfferShown, currency: str, *, first: bool) -> list[Child]:
    rig = offer.rig
    name = tag("strong", rig.name) if first else rig.name
    return [name, money(offer.total, currency), *_rig(rig)]


def _refused(refused: Sequence[RefusedShown], currency: str) -> Markup:
    if not refused:
        return NOTHING
    items = [tag("li", sentence(f"{heap.count:,} {heap.words}"), _nearest(heap, currency)) for heap in refused]
    return tag("details", tag("summary", "What was refused, and why"), tag("ul", *items))


def _nearest(heap: RefusedShown, currency: str) -> Markup:
    names = [f"{offer.rig.name} ({money(offer.total, currency)})" for offer in heap.nearest]
    return tag("small", f" Nearest: {', '.join(names)}.") if names else NOTHING


def _device(rig: RigShown, currency: str) -> list[Child]:
    each = money(rig.price_per_token_per_s, currency) if rig.price_per_token_per_s else "-"
    watts = f"{rig.tdp_w:,.0f}" if rig.tdp_w else "-"
    return [rig.name, *_rig(rig), price(rig.price), each, watts]


def _rig(rig: RigShown) -> list[Child]:
    """Memory, whether it fits, and the two speeds."""
    memory = size(rig.memory_bytes) if rig.memory_bytes else "-"
    if not rig.speed:
        return [memory, joined([FITS[rig.fits], tag("small", rig.reason) if rig.reason else NOTHING]), "-", "-"]
    return [memory, FITS[rig.fits], between(rig.speed.decode_tokens_per_s), between(rig.speed.prefill_tokens_per_s)]
