"""What tokens cost: a device with its electricity, an hour of somebody else's, or a million from an API."""

from math import ceil
from typing import NamedTuple

import msgspec

from unslow.think.buy.cost_report import BreakEvenShown, How, WayShown
from unslow.think.buy.report import PriceShown, RigShown, SpeedShown

_DAY_S = 86_400.0
_HOUR_S = 3600.0
MONTH_DAYS = 365.25 / 12
MILLION = 1e6


class Use(NamedTuple):
    """How much is generated in a day, and how much is read for it."""

    tokens: float
    prompt_ratio: float

    @property
    def per_month(self) -> float:
        """Generated tokens of a month."""
        return self.tokens * MONTH_DAYS


class Terms(NamedTuple):
    """What owning depends on beside the device."""

    electricity: float
    """Of a kWh."""
    years: float
    resale: float = 0.0
    """What it sells for at the end."""
    host_price: float = 0.0
    watts: float | None = None
    """Measured while it works; None for a share of the TDP."""
    power_share: float = 1.0


def seconds_per_token(speed: SpeedShown, prompt_ratio: float) -> float:
    """Of work for one generated token and the prompt tokens that go with it, with all conversations at once."""
    return 1 / speed.decode_tokens_per_s.mid + prompt_ratio / speed.prefill_tokens_per_s.mid


def busy_share(speed: SpeedShown, use: Use) -> float:
    """Of the day; above 1 where a day is too short."""
    return use.tokens * seconds_per_token(speed, use.prompt_ratio) / _DAY_S


def own(rig: RigShown, price: PriceShown | None, use: Use, terms: Terms) -> WayShown:
    """With a device of one's own."""
    if rig.speed is None or rig.fits == "no":
        return WayShown(how="own", name=rig.name, rig=rig, price=price, reason=rig.reason or "it does not fit")
    busy = busy_share(rig.speed, use)
    watts = terms.watts if terms.watts is not None else (rig.tdp_w or 0.0) * terms.power_share or None
    capital = (upfront(rig, price, terms) - terms.resale) / (12 * terms.years) if price else None
    power = None if watts is None else min(busy, 1.0) * 24 * MONTH_DAYS * watts / 1000 * terms.electricity
    month = None if capital is None or power is None else capital + power
    missing = _price_missing(rig) if price is None else "its power is not known (--watts)" if power is None else ""
    way = _way("own", rig, price, use, month)
    said = "; ".join(text for text in (way.reason, missing) if text)
    return msgspec.structs.replace(way, capital_per_month=capital, power_per_month=power, watts=watts, reason=said)


def _price_missing(rig: RigShown) -> str:
    name, paid = ("here", " (0 where it is paid already)") if rig.name.startswith("here") else (rig.device, "")
    return f'its price is not known: --price "{name}=AMOUNT"{paid}'


def upfront(rig: RigShown, price: PriceShown, terms: Terms) -> float:
    """What is paid on the first day: the devices, and a computer around cards where one is counted."""
    return price.amount + (terms.host_price if rig.kind == "gpu" else 0.0)


def rent(rig: RigShown, price: PriceShown, use: Use, *, all_day: bool) -> WayShown:
    """With a rented device, by the hour while it works, or all day."""
    how: How = "rent all day" if all_day else "rent"
    if rig.speed is None or rig.fits == "no":
        return WayShown(how=how, name=rig.name, rig=rig, price=price, reason=rig.reason or "it does not fit")
    hours = 24.0 if all_day else 24 * min(busy_share(rig.speed, use), 1.0)
    return _way(how, rig, price, use, hours * MONTH_DAYS * price.amount)


def api(name: str, price: PriceShown, input_price: float, use: Use) -> WayShown:
    """From somebody who sells tokens."""
    each = price.amount + use.prompt_ratio * input_price
    return WayShown(
        how="api", name=name, price=price, input_price=input_price, per_million=each,
        per_month=each * use.per_month / MILLION, enough=True,
    )  # fmt: skip


def _way(how: How, rig: RigShown, price: PriceShown | None, use: Use, per_month: float | None) -> WayShown:
    """A device that runs the model: what it can make, and what a million tokens cost of those that it does make."""
    busy = busy_share(rig.speed, use) if rig.speed else 0.0
    most = use.tokens / busy if busy else 0.0
    made = min(use.tokens, most) * MONTH_DAYS
    return WayShown(
        how=how,
        name=rig.name,
        rig=rig,
        price=price,
        per_million=None if per_month is None or not made else per_month / made * MILLION,
        per_month=per_month,
        busy_share=busy,
        most_tokens_per_day=most,
        enough=busy <= 1,
        reason=_reason(rig, most, busy),
    )


def _reason(rig: RigShown, most: float, busy: float) -> str:
    """What has to be said of it."""
    less = f"it can make {most:,.0f} tokens a day at most: {ceil(busy):,} such would be needed" if busy > 1 else ""
    part = "it holds only a part of the model and its context, the rest lies on the host" * (rig.fits == "partly")
    return "; ".join(text for text in (less, part) if text)


def break_even(mine: WayShown, other: WayShown, terms: Terms) -> BreakEvenShown | None:
    """When a device has paid for itself against another way; None where either can't do it or can't be told.

    What it sells for counts as if it could be sold on that day.
    """
    if mine.rig is None or mine.price is None or mine.power_per_month is None or other.per_month is None:
        return None
    if mine.enough is not True or other.enough is not True:
        return None
    saved = other.per_month - mine.power_per_month
    months = (upfront(mine.rig, mine.price, terms) - terms.resale) / saved if saved > 0 else None
    against = f"{other.name}, {other.how}" if other.how != "api" else other.name
    return BreakEvenShown(own=mine.name, against=against, months=months)


def rivals(others: list[WayShown]) -> list[WayShown]:
    """What owning is held against: the cheapest of each way that can do it, and every API."""
    able = [way for way in cheapest_first(others) if way.enough and way.per_month is not None]
    first = {way.how: way for way in reversed(able)}
    return [way for way in able if way.how == "api" or first[way.how] is way]


def cheapest_first(ways: list[WayShown]) -> tuple[WayShown, ...]:
    """What can do it by what it costs, then the rest."""
    return tuple(sorted(ways, key=_place))


def _place(way: WayShown) -> tuple[bool, bool, float, str]:
    return way.enough is not True, way.per_million is None, way.per_million or 0.0, way.name


def tokens_in(hours: float, speed: SpeedShown, prompt_ratio: float) -> float:
    """Generated tokens of so many hours of work."""
    return hours * _HOUR_S / seconds_per_token(speed, prompt_ratio)
