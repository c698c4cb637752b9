"""The answers to a buyer's questions as HTML: devices side by side, what to choose, what tokens cost, what fits."""

import re
from collections.abc import Iterable, Sequence

from unslow.buy.cost import CostReport, break_even_words
from unslow.buy.offers import ChoiceReport
from unslow.buy.report import DevicesReport, PriceShown, RigShown
from unslow.buy.tiers import TierShown, TiersReport
from unslow.page.html.markup import NOTHING, Child, Markup, join_markup, sentence, tag
from unslow.show.units import count, rate, size
from unslow.think.speed.report import RateShown

FITS = {"whole": "✓ fits", "partly": "! partly", "no": "✗ does not fit", "unknown": "? unknown"}
_HEADS = ("Device", "Memory", "Fits", "Decode, tok/s", "Prefill, tok/s", "Price", "Price per tok/s", "Watts")
_WAYS = ("Option", "Price", "Per million generated tokens", "Per month", "Electricity per month", "Busy", "Enough")
_UNIT = {"own": "", "rent": " per hour", "rent all day": " per hour", "api": " per million"}  # Of the price
_RUNS = ("Model", "Size", "Quant", "Max context", "Decode, tok/s")
_FLAG = re.compile(r'(`[^`]*`)|--([a-z]+(?:-[a-z]+)*)(?: "([^"]{0,80})")?')
"""A flag of the answer that the page shows; one inside backquotes is of a command to type, which stays as it is."""


def devices(report: DevicesReport) -> Markup:
    """Devices side by side."""
    asked = report.asked
    lead = f"{asked.model} {asked.quant}, context {asked.context:,}, {users(asked.users)}" if asked else "The catalog"
    rows: list[list[Child]] = []
    for rig in report.devices:
        each = money(rig.price_per_token_per_s, report.currency) if rig.price_per_token_per_s else "-"
        *cells, watts = _rig(rig)
        rows.append([rig.name, *cells, price(rig.price), each, watts])
    shown = table("Devices side by side", _HEADS, rows)
    return join_markup([tag("p", lead, class_="quiet"), shown, notes(report.notes)])


def choose(report: ChoiceReport) -> Markup:
    """What to buy, the runners-up, what was refused, and what would have to give."""
    best, reasons = report.chosen, NOTHING
    if best:
        pay = {None: ", price unknown", 0.0: ", at no cost"}
        said = pay.get(best.total, f" for {money(best.total, report.currency)}")
        head = tag("p", tag("strong", best.rig.name), said, class_="best")
        reasons = notes([*best.reasons, *best.rig.notes])
    else:
        said = " What would make it possible:" if report.ways else " See the rejected options for why."
        ways = [tag("li", sentence(by_field(way.words))) for way in report.ways]
        none = tag("p", tag("strong", "Nothing in the catalog meets this."), said)
        head = join_markup([none, tag("ul", *ways) if ways else NOTHING])
    rows: list[list[Child]] = []
    for offer in filter(None, (best, *report.runners_up)):
        name = tag("strong", offer.rig.name) if offer is best else offer.rig.name
        total = money(offer.total, report.currency)
        rows.append([name, total, offer.rig.quant, *_rig(offer.rig)])
    heads = (_HEADS[0], "To pay", "Quant", *_HEADS[1:5], _HEADS[-1])
    shown = table("The choice and the runners-up", heads, rows) if rows else NOTHING
    asked = report.asked
    each = " each" if asked.users > 1 else ""
    goal = f", goal {report.goal_tokens_per_s:g} tok/s{each}" if report.goal_tokens_per_s else ""
    budget = f", budget {money(report.budget, report.currency)}" if report.budget is not None else ""
    lead = f"{asked.model}, context {asked.context:,}, {users(asked.users)}{goal}{budget}"
    items = []
    for heap in report.refused:
        names = [f"{offer.rig.name} ({money(offer.total, report.currency)})" for offer in heap.nearest]
        nearest = tag("small", f" Nearest: {', '.join(names)}.") if names else NOTHING
        items.append(tag("li", sentence(by_field(f"{heap.count:,}: {heap.words}")), nearest))
    refused = tag("details", tag("summary", "Rejected options, and why"), tag("ul", *items)) if items else NOTHING
    remarks = notes([*report.assumptions, *report.notes])
    return join_markup([head, tag("p", lead, class_="quiet"), reasons, shown, refused, remarks])


def cost(report: CostReport) -> Markup:
    """Own against rent against an API, the cheapest first."""
    asked, use = report.asked, report.use
    lead = (
        f"{asked.model} {asked.quant}, {use.tokens_per_day:,.0f} generated and {use.prompt_tokens_per_day:,.0f} prompt "
        f"tokens per day, {users(asked.users)}, {report.years:g} years, "
        f"{report.electricity_per_kwh:g} {report.currency} per kWh"
    )
    rows: list[list[Child]] = []
    for way in report.ways:
        reason = tag("small", f" {by_field(way.reason)}") if way.reason else NOTHING
        sums = (way.per_million, way.per_month, way.power_per_month)
        costs = [money(one, report.currency) if one is not None else "-" for one in sums]
        busy = f"{way.busy_share:.0%}" if way.busy_share is not None else "-"
        enough = {True: "✓ yes", False: "✗ no", None: "?"}[way.enough]
        name = join_markup([f"{way.how}: {way.name}", reason])
        rows.append([name, price(way.price, _UNIT[way.how]), *costs, busy, enough])
    even = [f"{one.own} {break_even_words(one, report.years)}." for one in report.break_even]
    return join_markup([
        tag("p", lead, class_="quiet"),
        table("What tokens cost each way", _WAYS, rows),
        tag("ul", *(tag("li", said) for said in even), class_="notes") if even else NOTHING,
        notes([*report.assumptions, *report.notes]),
    ])  # fmt: skip


def tiers(report: TiersReport) -> Markup:
    """What each size of memory runs."""
    lead = f"{report.models:,} models, context {report.context:,}, {report.quant_least} or larger"
    return join_markup([tag("p", lead, class_="quiet"), *map(_tier, report.tiers), notes(report.notes)])


def _tier(tier: TierShown) -> Markup:
    title = f"{size(tier.memory_bytes)}{' unified' if tier.unified else ''}"
    typical = f"Speeds on {tier.device}, one of {tier.devices} devices of this size." if tier.device else ""
    rows: list[list[Child]] = []
    for one in tier.runs:
        alike = f" and {one.alike} similar" if one.alike else ""
        context = f"{one.most_context:,}" if one.most_context else "-"
        speed = between(one.tokens_per_s) if one.tokens_per_s else "-"
        experts = ", MoE" if one.is_sparse else ""
        rows.append([f"{one.model}{alike}", f"{count(one.parameters)}{experts}", one.quant, context, speed])
    misses = [
        f"{one.model} {one.quant} is {size(one.lacks_bytes)} too large{f': {one.would_fit}' if one.would_fit else ''}"
        for one in tier.misses
    ]
    return join_markup([
        tag("h3", title),
        tag("p", typical, class_="quiet") if typical else NOTHING,
        table(f"What runs in {title}", _RUNS, rows) if rows else tag("p", "Nothing in the catalog fits fully."),
        tag("details", tag("summary", "What narrowly does not fit"), notes(misses)) if misses else NOTHING,
    ])  # fmt: skip


def _rig(rig: RigShown) -> list[Child]:
    """Memory, whether it fits, both speeds, and the power."""
    memory = size(rig.memory_bytes) if rig.memory_bytes else "-"
    watts = f"{rig.tdp_w:,.0f}" if rig.tdp_w else "-"
    if not rig.speed:
        fits = join_markup([FITS[rig.fits], tag("small", rig.reason) if rig.reason else NOTHING])
        return [memory, fits, "-", "-", watts]
    speeds = (rig.speed.each_tokens_per_s, rig.speed.prefill_tokens_per_s)
    return [memory, FITS[rig.fits], *map(between, speeds), watts]


def between(speed: RateShown) -> Markup:
    """The middle, and the ends below it."""
    return join_markup([tag("b", rate(speed.mid)), tag("small", f" {rate(speed.low)} to {rate(speed.high)}")])


def price(shown: PriceShown | None, unit: str = "") -> Markup:
    """A price with its kind and date, so that an old one is seen to be old."""
    if shown is None:
        return join_markup(["-"])
    kind = " ".join(word for word in (shown.kind, shown.date, "old" if shown.old else "") if word)
    about = tag("small", f" {kind}", title=shown.source or None)
    return join_markup([f"{money(shown.amount, shown.currency)}{unit}", about])


def money(amount: float | None, currency: str) -> str:
    """An amount with its currency."""
    if amount is None:
        return "price unknown"
    digits = 0 if amount >= 100 or not amount else 2  # noqa: PLR2004 (three digits)
    return f"{amount:,.{digits}f} {currency}"


def users(count: int) -> str:
    """How many talk to it at once."""
    return "one user" if count == 1 else f"{count:,} concurrent users"


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Child]]) -> Markup:
    """A table whose first column names the row; where it is too wide it scrolls, and can be reached by key."""
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    lines = [tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in others)) for first, *others in rows]
    shown = tag("table", tag("caption", caption, class_="for-ears"), head, tag("tbody", *lines), class_="numbers")
    return tag("div", shown, class_="scroll", tabindex=0, role="region", aria_label=caption)


def notes(said: Iterable[str]) -> Markup:
    """Remarks below a table."""
    items = [tag("li", sentence(by_field(note))) for note in said]
    return tag("ul", *items, class_="notes") if items else NOTHING


def by_field(text: str) -> str:
    """Words of the terminal with its flags as the fields of the page: `--price "A=1"` as “Price”: A=1."""

    def field(found: re.Match[str]) -> str:
        name = f"“{(found[2] or '').replace('-', ' ').capitalize()}”"
        return found[1] or (f"{name}: {found[3]}" if found[3] else name)

    return _FLAG.sub(field, text)
