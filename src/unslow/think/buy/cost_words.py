"""What a comparison of costs rests on, in words."""

from collections.abc import Iterator, Sequence

from unslow.think.buy.cost import Terms, Use
from unslow.think.buy.cost_report import BreakEvenShown, WayShown
from unslow.think.buy.prices import KEEPS_MONTHS, SHIPPED, Purse

_LONG_MONTHS = 36
"""From there on people count years."""


def paid_after(pair: BreakEvenShown, years: float) -> str:
    """When owning has paid for itself, in words; not after the years in which it is used."""
    if pair.months is None:
        return f"never pays against {pair.against}, which costs less than its electricity alone"
    long = pair.months >= _LONG_MONTHS
    after = f"{pair.months / 12:,.1f} years" if long else f"{pair.months:,.1f} months"
    if pair.months > 12 * years:
        return f"does not pay within {years:g} years against {pair.against}: it would take {after}"
    return f"pays after {after} against {pair.against}"


def assumptions(
    terms: Terms, use: Use, currency: str, *, users: int, electricity_said: bool, has_own: bool
) -> tuple[str, ...]:
    """What was taken for granted, and the flag that says it better."""
    work = _work(use, users)
    return (*work, *_owning(terms, currency, electricity_said=electricity_said)) if has_own else work


def _work(use: Use, users: int) -> tuple[str, ...]:
    read = f"{use.prompt_ratio:g} prompt tokens are read for each generated one (--prompt-ratio)"
    if users > 1:
        return read, f"a device always has {users} conversations at once (--users)"
    return read, "a device has one conversation at a time; several at once make more tokens of the same hour (--users)"


def _owning(terms: Terms, currency: str, *, electricity_said: bool) -> Iterator[str]:
    if not electricity_said:
        yield f"a kWh costs {terms.electricity:g} {currency}, which was assumed (--electricity)"
    if terms.watts is not None:
        yield f"it draws {terms.watts:,.0f} W while it works, as you measured, and nothing else is counted"
    else:
        share = "all of its TDP" if terms.power_share == 1 else f"{terms.power_share:.0%} of its TDP"
        yield f"it draws {share} while it works and nothing while idle; the computer around it is not counted (--watts)"
    sells = f"then sells for {terms.resale:,.0f} {currency}" if terms.resale else "is then worth nothing (--resale)"
    yield f"it is used for {terms.years:g} years and {sells}"
    if not terms.host_price:
        yield "a card goes into a computer that is there already (--host-price)"


def notes_on(ways: Sequence[WayShown], purse: Purse) -> tuple[str, ...]:
    """Where the prices come from, and what is missing."""
    return tuple(dict.fromkeys(_notes(ways, purse)))


def _notes(ways: Sequence[WayShown], purse: Purse) -> Iterator[str]:
    yield "speeds are the middle of the prediction: `unslow devices` shows the interval"
    for way in ways:
        price = way.price
        if price is None or price.kind == "yours":
            continue
        old = f", more than {KEEPS_MONTHS} months ago" if price.old and price.kind != "launch" else ""
        if price.kind == "launch":
            unchecked, name = "" if price.checked else ", which nobody checked", way.rig.device if way.rig else way.name
            yield f'{name}: what the maker asked in {price.date}{unchecked}; yours counts: --price "{name}=AMOUNT"'
        else:
            yield f"{price.kind} {price.seller} seen {price.date}{old}: {price.source}"
    if purse.currency != SHIPPED:
        yield f"shipped prices are in {SHIPPED} and are not turned into {purse.currency}: give --rent and --api"
        return
    if not any(way.how == "api" for way in ways):
        yield 'no API price of this model is shipped: give one with --api "0.5/1.5 per M"'
    if not any(way.how == "rent" for way in ways):
        yield 'none of the rents that are shipped does it with one device: --rent "2x H100 SXM=2.5/h"'
