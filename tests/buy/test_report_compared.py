"""The order of compared devices, and what is said of their prices."""

import pytest

from unslow.buy.devices import notes_on, sort_rigs
from unslow.buy.report import BuyerPrices, Fits, PriceShown, RigShown, SpeedShown
from unslow.think.speed.report import RateShown


def rig(name: str, speed: float | None, amount: float | None, watts: float | None, fits: Fits = "whole") -> RigShown:
    rate = RateShown(low=speed or 0, mid=speed or 0, high=speed or 0)
    shown = SpeedShown(decode_tokens_per_s=rate, each_tokens_per_s=rate, prefill_tokens_per_s=rate, first_token_s=rate)
    price = amount and PriceShown(amount=amount, currency="USD", kind="launch", date="2025", checked=False)
    return RigShown(
        name=name, device=name, vendor="v", kind="gpu", year=2025, memory_bytes=int(watts or 0), bytes_per_s=1.0,
        tdp_w=watts, price=price or None, fits=fits, speed=shown if speed else None,
        price_per_token_per_s=amount / speed if amount and speed else None,
        tokens_per_joule_by_tdp=speed / watts if speed and watts else None,
    )  # fmt: skip


RIGS = [rig("b", 10, 500, 300), rig("a", 40, 4000, 100, "partly"), rig("c", None, None, None, "no")]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("speed", "abc"),
        ("price", "bac"),
        ("value", "bac"),
        ("watts", "abc"),
        ("memory", "bac"),
        ("name", "abc"),
        ("", "bac"),
    ],
)  # fmt: skip
def test_sorting_puts_unknown_values_last(order: str, names: str) -> None:
    assert "".join(found.name for found in sort_rigs(RIGS, order)) == names


def test_notes_explain_price_kinds_and_currency(wording) -> None:
    wording(notes_on(RIGS, BuyerPrices({}), has_model=True), tells=("70 GB/s", "TDP", "--price"))
    euros = wording(notes_on(RIGS, BuyerPrices({}, "EUR"), has_model=False), tells="EUR")
    assert not any("TDP" in note for note in euros)


def test_seen_price_source_is_noted_once(wording) -> None:
    seen = PriceShown(amount=1, currency="USD", kind="used", date="2026-01-01", source="a page", old=True)
    both = [RigShown(**{**{f: getattr(r, f) for f in r.__struct_fields__}, "price": seen}) for r in RIGS]
    notes = [note for note in notes_on(both, BuyerPrices({}), has_model=False) if "a page" in note]
    wording(notes, tells="2026-01-01")
