"""What tokens cost each way, and what each size of memory runs, as parts of the page."""

from unslow.show._html.buyers_parts import between, by_field, money, notes, price, table, users
from unslow.show._html.markup import NOTHING, Child, Markup, joined, tag
from unslow.show._units import count, size
from unslow.think.buy.cost_report import CostReport, WayShown
from unslow.think.buy.cost_words import paid_after
from unslow.think.buy.tiers_report import MissesShown, RunsShown, TierShown, TiersReport

_WAYS = ("Way", "Price", "A million generated", "A month", "Electricity a month", "Busy", "Enough")
_UNIT = {"own": "", "rent": " an hour", "rent all day": " an hour", "api": " a million"}
"""Of the price."""
_RUNS = ("Model", "Size", "Quant", "Longest context", "Answers, tok/s")


def cost(report: CostReport) -> Markup:
    """Own against rent against an API, the cheapest first."""
    asked, use = report.asked, report.use
    lead = (
        f"{asked.model} {asked.quant}, {use.tokens_per_day:,.0f} tokens a day with {use.prompt_tokens_per_day:,.0f} of "
        f"prompts, {users(asked.users)}, {report.years:g} years, {report.electricity_per_kwh:g} {report.currency} a kWh"
    )
    rows = [_way(way, report.currency) for way in report.ways]
    even = [f"{one.own} {paid_after(one, report.years)}." for one in report.break_even]
    return joined([
        tag("p", lead, class_="quiet"),
        table("What tokens cost each way", _WAYS, rows),
        tag("ul", *(tag("li", said) for said in even), class_="notes") if even else NOTHING,
        notes([*report.assumptions, *report.notes]),
    ])  # fmt: skip


def _way(way: WayShown, currency: str) -> list[Child]:
    enough = {True: "✓ yes", False: "✗ no", None: "?"}[way.enough]
    busy = f"{way.busy_share:.0%}" if way.busy_share is not None else "-"
    name = joined([f"{way.how}: {way.name}", tag("small", f" {by_field(way.reason)}") if way.reason else NOTHING])
    sums = [way.per_million, way.per_month, way.power_per_month]
    return [
        name,
        price(way.price, _UNIT[way.how]),
        *(money(one, currency) if one is not None else "-" for one in sums),
        busy,
        enough,
    ]


def tiers(report: TiersReport) -> Markup:
    """What each size of memory runs."""
    lead = f"{report.models:,} models, context {report.context:,}, no quant below {report.quant_least}"
    return joined([tag("p", lead, class_="quiet"), *map(_tier, report.tiers), notes(report.notes)])


def _tier(tier: TierShown) -> Markup:
    title = f"{size(tier.memory_bytes)}{' unified' if tier.unified else ''}"
    typical = f"Speeds on {tier.device}, one of {tier.devices} with so much." if tier.device else ""
    rows = [_runs(one) for one in tier.runs]
    return joined([
        tag("h3", title),
        tag("p", typical, class_="quiet") if typical else NOTHING,
        table(f"What runs in {title}", _RUNS, rows) if rows else tag("p", "Nothing of the catalogue fits whole."),
        _misses(tier.misses),
    ])  # fmt: skip


def _runs(one: RunsShown) -> list[Child]:
    alike = f" and {one.alike} alike" if one.alike else ""
    context = f"{one.most_context:,}" if one.most_context else "-"
    speed = between(one.tokens_per_s) if one.tokens_per_s else "-"
    experts = " with experts" if one.is_sparse else ""
    return [f"{one.model}{alike}", f"{count(one.parameters)}{experts}", one.quant, context, speed]


def _misses(misses: tuple[MissesShown, ...]) -> Markup:
    items = [
        f"{one.model} {one.quant} lacks {size(one.lacks_bytes)}{f': {one.would_fit}' * bool(one.would_fit)}"
        for one in misses
    ]
    return tag("details", tag("summary", "What just does not fit"), notes(items)) if items else NOTHING
