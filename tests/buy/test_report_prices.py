"""Which price is used, and how it is marked."""

from unslow.buy.report import BuyerPrices, is_old, price_key
from unslow.catalog.devices import Device

TODAY = "2026-11-16"
CARD = Device(name="RTX 5090", vendor="NVIDIA", source="", year=2025, launch_usd=1999, also=("GeForce 5090",))
SEEN = Device(name="RTX 3090", vendor="NVIDIA", source="", year=2020, launch_usd=1499)
MAC = Device(name="Apple M4 Max", vendor="Apple", source="", year=2024, launch_usd=3699, memory_sizes_bytes=(1, 2))


def test_user_price_wins_over_builtin_price() -> None:
    prices = BuyerPrices({price_key("rtx 3090"): 650.0}, today=TODAY)
    price = prices.of(SEEN)
    assert price is not None
    assert (price.amount, price.kind, price.old) == (650.0, "yours", False)
    other = BuyerPrices({price_key("GeForce-5090"): 2500.0}, today=TODAY).of(CARD)
    assert other is not None
    assert other.amount == 2500.0


def test_seen_price_is_marked_old_after_the_limit() -> None:
    price = BuyerPrices({}, today=TODAY).of(SEEN)
    assert price is not None
    assert (price.amount, price.kind, price.old) == (700, "used", True)
    soon = BuyerPrices({}, today="2026-05-01").of(SEEN)
    assert soon is not None
    assert not soon.old


def test_price_date_is_old_after_six_months() -> None:
    assert not is_old("2026-05-17", TODAY)
    assert is_old("2026-05-16", TODAY)
    assert is_old("2026-05", TODAY)
    assert not is_old("2026-06", "2026-11-30")
    assert not is_old("never", TODAY)
    assert not is_old("2026-05-16", "")


def test_launch_price_is_unverified_and_buyable_for_some_years() -> None:
    prices = BuyerPrices({}, today=TODAY)
    price = prices.of(CARD)
    assert price is not None
    assert (price.kind, price.date, price.checked) == ("launch", "2025", False)
    assert prices.is_buyable(CARD, price)
    old = Device(name="GTX 980", vendor="NVIDIA", source="", year=2014, launch_usd=549)
    assert not prices.is_buyable(old, prices.of(old))
    assert not BuyerPrices({}).is_buyable(CARD, price)  # without a day nothing is new
    assert not prices.is_buyable(CARD, None)


def test_builtin_price_applies_to_the_smallest_memory_size_only() -> None:
    prices = BuyerPrices({}, today=TODAY)
    assert prices.of(MAC, "Apple M4 Max 64GB", smallest=False) is None
    assert prices.of(MAC, "Apple M4 Max 48GB", smallest=True) is not None
    own = BuyerPrices({price_key("Apple M4 Max 64GB"): 3899.0}, today=TODAY)
    found = own.of(MAC, "Apple M4 Max 64GB", smallest=False)
    assert found is not None
    assert found.amount == 3899.0


def test_builtin_prices_are_not_converted_to_another_currency() -> None:
    assert BuyerPrices({}, "EUR", TODAY).of(CARD) is None
    own = BuyerPrices({price_key("RTX 5090"): 2200.0}, "EUR", TODAY).of(CARD)
    assert own is not None
    assert own.currency == "EUR"


def test_price_of_several_devices_is_multiplied() -> None:
    twice = BuyerPrices({}, today=TODAY).of(CARD, count=2)
    assert twice is not None
    assert twice.amount == 3998
    assert BuyerPrices({}, "EUR", TODAY).of(CARD, count=2) is None
