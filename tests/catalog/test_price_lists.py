"""Shipped prices name a device or model of the catalog, with date and source."""

import re

from unslow.catalog.devices import Device, all_devices
from unslow.catalog.models import well_known
from unslow.catalog.prices import all_prices, price_lists, prices_of, shop_price


def device(name: str) -> Device:
    return next(d for d in all_devices() if d.name == name)


def test_every_price_names_a_device_or_a_model() -> None:
    devices, models = {d.name for d in all_devices()}, {m.name for m in well_known().values()}
    for price in all_prices():
        assert price.of in (models if price.kind == "api" else devices), price


def test_every_price_is_dated_and_sourced() -> None:
    for found in price_lists().values():
        assert re.fullmatch(r"202\d-[01]\d(-[0-3]\d)?", found.date), found.seller
        assert len(found.source) > 20, found.seller
        assert found.prices, found.seller


def test_rents_devices_and_apis_have_plausible_prices() -> None:
    for price in all_prices():
        if price.kind == "api":
            assert not price.usd
            assert 0 < price.input_usd <= price.output_usd < 100, price
        else:
            assert (0.05 < price.usd < 20) if price.kind == "rent" else (50 < price.usd < 50_000), price


def test_an_observed_price_wins_over_the_launch_price() -> None:
    seen = shop_price(device("RTX 3090"))
    assert seen is not None
    assert (seen.kind, seen.usd) == ("used", 700)
    first = shop_price(device("RTX 5090"))
    assert first is not None
    assert (first.kind, first.usd, first.date, first.source) == ("launch", 1999, "2025", "unverified")
    assert shop_price(device("H200 NVL")) is None


def test_rents_and_apis_are_found_cheapest_first() -> None:
    rents = prices_of("rent", "H100 SXM")
    assert len(rents) >= 3
    assert [r.usd for r in rents] == sorted(r.usd for r in rents)
    assert prices_of("rent", "GTX 970") == []
    assert [a.output_usd for a in prices_of("api", "Llama-3.3-70B")] == [0.32]
    assert prices_of("api", "nobody") == []
