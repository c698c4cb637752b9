"""Published prices: one TOML for each list, with its date and source, found by presence."""

from functools import cache, partial
from typing import Literal

import msgspec

from unslow.catalog import entries
from unslow.catalog.devices import Device

Kind = Literal["street", "used", "rent", "api"]


class PriceRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a list: of a device to buy or by the hour, or of a model by a million tokens."""

    of: str  # The name of a device or of a model, as the catalog has it
    usd: float = 0.0  # Of a device, or of an hour with it
    input_usd: float = 0.0
    output_usd: float = 0.0


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one seller asked on one day."""

    seller: str
    kind: Kind
    date: str  # The day on which it was read, or only the month where that is all that is known, as ISO 8601
    source: str
    prices: tuple[PriceRow, ...]


class Price(msgspec.Struct, frozen=True):
    """A price with where it was seen; `kind` launch is what the maker asked in the year of the date."""

    of: str
    kind: Literal["launch", "street", "used", "rent", "api"]
    date: str
    source: str
    seller: str = ""
    usd: float = 0.0
    input_usd: float = 0.0
    output_usd: float = 0.0


price_lists = partial(entries, "prices", PriceList)  # Every list by the name of its file


@cache
def all_prices() -> tuple[Price, ...]:
    """Every price of every list, the newest first."""
    found = []
    for one in price_lists().values():
        seen = {"kind": one.kind, "date": one.date, "source": one.source, "seller": one.seller}
        found += [msgspec.convert(seen | msgspec.structs.asdict(line), Price) for line in one.prices]
    return tuple(sorted(found, key=lambda price: price.date, reverse=True))


def shop_price(device: Device) -> Price | None:
    """What a device was last seen for, new or used; else what its maker asked at first; None where neither is known."""
    seen = next((p for p in all_prices() if p.kind in {"street", "used"} and p.of == device.name), None)
    if seen or not device.launch_usd:
        return seen
    source = device.sources.get("launch_usd", "unverified")
    return Price(of=device.name, kind="launch", date=str(device.year), source=source, usd=device.launch_usd)


def prices_of(kind: Literal["rent", "api"], name: str | None = None) -> list[Price]:
    """What an hour with a device, or a million tokens of a model cost, the cheapest first; of all without a name."""
    found = (price for price in all_prices() if price.kind == kind and name in (None, price.of))
    return sorted(found, key=lambda price: price.output_usd if kind == "api" else price.usd)
