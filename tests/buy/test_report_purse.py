"""Which price counts, and how far it is trusted."""

from unslow.buy.report import BuyerPrices, is_old, plain_price, times_price
from unslow.catalog.devices import Device

TODAY = "2026-11-16"
CARD = Device(name="RTX 5090", vendor="NVIDIA", source="", year=2025, launch_usd=1999, also=("GeForce 5090",))
SEEN = Device(name="RTX 3090", vendor="NVIDIA", source="", year=2020, launch_usd=1499)
MAC = Device(name="Apple M4 Max", vendor="Apple", source="", year=2024, launch_usd=3699, memory_sizes_bytes=(1, 2))


def test_the_buyers_own_price_wins() -> None:
    purse = BuyerPrices({plain_price("rtx 3090"): 650.0}, today=TODAY)
    price = purse.of(SEEN)
    assert price is not None
    assert (price.amount, price.kind, price.old) == (650.0, "yours", False)
    other = BuyerPrices({plain_price("GeForce-5090"): 2500.0}, today=TODAY).of(CARD)
    assert other is not None
    assert other.amount == 2500.0


def test_a_price_that_was_seen_is_marked_when_it_is_old() -> None:
    price = BuyerPrices({}, today=TODAY).of(SEEN)
    assert price is not None
    assert (price.amount, price.kind, price.old) == (700, "used", True)
    soon = BuyerPrices({}, today="2026-05-01").of(SEEN)
    assert soon is not None
    assert not soon.old


def test_a_day_is_old_after_half_a_year() -> None:
    assert not is_old("2026-05-17", TODAY)
    assert is_old("2026-05-16", TODAY)
    assert is_old("2026-05", TODAY)
    assert not is_old("2026-06", "2026-11-30")
    assert not is_old("never", TODAY)
    assert not is_old("2026-05-16", "")


def test_a_launch_price_is_not_checked_and_counts_for_some_years() -> None:
    purse = BuyerPrices({}, today=TODAY)
    price = purse.of(CARD)
    assert price is not None
    assert (price.kind, price.date, price.checked) == ("launch", "2025", False)
    assert purse.is_buyable(CARD, price)
    old = Device(name="GTX 980", vendor="NVIDIA", source="", year=2014, launch_usd=549)
    assert not purse.is_buyable(old, purse.of(old))
    assert not BuyerPrices({}).is_buyable(CARD, price)  # without a day nothing is new
    assert not purse.is_buyable(CARD, None)


def test_a_price_is_of_the_smallest_size_unless_it_is_the_buyers() -> None:
    purse = BuyerPrices({}, today=TODAY)
    assert purse.of(MAC, "Apple M4 Max 64GB", smallest=False) is None
    assert purse.of(MAC, "Apple M4 Max 48GB", smallest=True) is not None
    own = BuyerPrices({plain_price("Apple M4 Max 64GB"): 3899.0}, today=TODAY)
    found = own.of(MAC, "Apple M4 Max 64GB", smallest=False)
    assert found is not None
    assert found.amount == 3899.0


def test_shipped_prices_are_not_turned_into_another_currency() -> None:
    assert BuyerPrices({}, "EUR", TODAY).of(CARD) is None
    own = BuyerPrices({plain_price("RTX 5090"): 2200.0}, "EUR", TODAY).of(CARD)
    assert own is not None
    assert own.currency == "EUR"


def test_several_cost_several_times_as_much() -> None:
    price = BuyerPrices({}, today=TODAY).of(CARD)
    twice = times_price(price, 2)
    assert twice is not None
    assert twice.amount == 3998
    assert times_price(None, 2) is None
    assert times_price(price, 1) is price
