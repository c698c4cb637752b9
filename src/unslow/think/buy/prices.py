"""What a device costs a buyer: their own price, else one that was seen, else the maker's first."""

import re
from typing import NamedTuple

import msgspec

from unslow.catalog.device import Device
from unslow.catalog.prices import Price, shop_price
from unslow.think.buy.report import PriceShown

KEEPS_MONTHS = 6
"""Prices of hardware move by tens of percent within half a year: older ones are marked."""
SOLD_YEARS = 3
"""A maker's first price says little of a device that came out longer ago: few sell it new."""
SHIPPED = "USD"
"""The currency of every shipped price."""
_DAY = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?")


class Purse(NamedTuple):
    """The buyer's own prices by the name of a rig or of a device, their currency, and the day."""

    own: dict[str, float]
    currency: str = SHIPPED
    today: str = ""

    def of(self, device: Device, label: str = "", *, smallest: bool = True) -> PriceShown | None:
        """The price of one device; None where none is known in that currency.

        `label` is the device with its size of memory, where it is sold with several: a shipped price is that of the
        `smallest`.
        """
        for name in (label, device.name, *device.also):
            if name and (key := plain(name)) in self.own:
                return PriceShown(amount=self.own[key], currency=self.currency, kind="yours")
        if self.currency != SHIPPED or not smallest:
            return None
        found = shop_price(device)
        return shown(found, self.today) if found else None

    def is_buyable(self, device: Device, price: PriceShown | None) -> bool:
        """Whether the price can be held against a budget: a launch price only of what is still sold."""
        if price is None or price.kind != "launch":
            return price is not None
        return bool(self.today) and device.year >= int(self.today[:4]) - SOLD_YEARS


def plain(name: str) -> str:
    """A name as prices are looked up by."""
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter == "+")


def shown(price: Price, today: str) -> PriceShown:
    """A shipped price, marked where it is old."""
    if price.kind == "launch":
        return PriceShown(
            amount=price.usd, currency=SHIPPED, kind="launch", date=price.date, source=price.source,
            old=_years(price.date, today) > 1, checked=not price.source.startswith("unverified"),
        )  # fmt: skip
    return PriceShown(
        amount=price.usd, currency=SHIPPED, kind=price.kind, date=price.date, source=price.source,
        seller=price.seller, old=is_old(price.date, today),
    )  # fmt: skip


def _years(year: str, today: str) -> int:
    return int(today[:4]) - int(year) if today[:4].isdecimal() and year.isdecimal() else 0


def is_old(day: str, today: str) -> bool:
    """Whether a day, or the first of a month, is longer ago than prices keep."""
    before, now = (_DAY.fullmatch(text[:10]) for text in (day, today))
    if not before or not now:
        return False
    months = 12 * (int(now[1]) - int(before[1])) + int(now[2]) - int(before[2])
    months -= (now[3] or "01") < (before[3] or "01")
    return months >= KEEPS_MONTHS


def times(price: PriceShown | None, count: int) -> PriceShown | None:
    """The price of several."""
    if price is None or count == 1:
        return price
    return msgspec.structs.replace(price, amount=price.amount * count)
