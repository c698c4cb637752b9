"""What tokens cost: sums that add up, what a day is too short for, and when owning has paid."""

import msgspec
import pytest

from unslow.buy.cost import (
    MONTH_DAYS,
    BreakEvenShown,
    Terms,
    api,
    assumptions,
    break_even,
    cheapest_first,
    notes_on,
    own,
    paid_after,
    rent,
    rivals,
    tokens_in,
    use_of,
)
from unslow.buy.report import BuyerPrices, Fits, PriceShown, RigShown, SpeedShown
from unslow.think.speed.report import RateShown

TERMS = Terms(electricity=0.30, years=2)


def rate(mid: float) -> RateShown:
    return RateShown(low=0.9 * mid, mid=mid, high=1.1 * mid)


def rig(decode: float | None = 10.0, fits: Fits = "whole", watts: float | None = 500, kind: str = "gpu") -> RigShown:
    speed = decode and SpeedShown(
        decode_tokens_per_s=rate(decode), each_tokens_per_s=rate(decode), prefill_tokens_per_s=rate(1000.0),
        first_token_s=rate(1.0),
    )  # fmt: skip
    return RigShown(
        name="card", device="card", vendor="", kind=kind, year=2025, memory_bytes=1, bytes_per_s=1.0, tdp_w=watts,
        fits=fits, speed=speed or None,
    )  # fmt: skip


def price(amount: float, kind: str = "yours") -> PriceShown:
    return PriceShown(amount=amount, currency="USD", kind="yours" if kind == "yours" else "rent", source="somewhere")


def test_owning_is_the_device_over_its_years_and_the_power_while_it_works() -> None:
    way = own(rig(), price(1200), use_of(86_400, 0), TERMS)
    assert way.busy_share == pytest.approx(0.1)  # 86,400 tokens at 10 a second take a tenth of a day
    assert way.capital_per_month == pytest.approx(50)
    assert way.power_per_month == pytest.approx(0.1 * 24 * MONTH_DAYS * 0.5 * 0.30)
    assert way.per_month == pytest.approx(way.capital_per_month + way.power_per_month)
    assert way.per_million == pytest.approx(way.per_month / (86_400 * MONTH_DAYS) * 1e6)
    assert (way.enough, way.reason, way.most_tokens_per_day) == (True, "", pytest.approx(864_000))


def test_prompts_take_time_too() -> None:
    plain, with_prompts = (own(rig(), price(1), use_of(1000, ratio), TERMS).busy_share for ratio in (0, 100))
    assert plain is not None
    assert with_prompts == pytest.approx(2 * plain)  # 100 tokens at 1,000 a second are as long as one at 10


def test_a_day_can_be_too_short(wording) -> None:
    way = own(rig(), price(1200), use_of(2_000_000, 0), TERMS)
    assert (way.enough, way.busy_share) == (False, pytest.approx(2.31, rel=0.01))
    wording(way.reason, tells="864,000")
    cheaper = own(rig(), price(1200), use_of(864_000, 0), TERMS)
    assert way.per_million == pytest.approx(cheaper.per_million)  # of the tokens that it does make


def test_measured_watts_resale_and_a_computer_are_counted() -> None:
    terms = Terms(0.30, 2, resale=240, host_price=480, watts=100)
    way = own(rig(), price(1200), use_of(86_400, 0), terms)
    assert way.watts == 100
    assert way.capital_per_month == pytest.approx(60)
    unified = own(rig(kind="unified"), price(1200), use_of(86_400, 0), terms)
    assert unified.capital_per_month == pytest.approx(40)  # no computer around a computer


def test_what_is_not_known_is_said(wording) -> None:
    use = use_of(1000, 0)
    wording(own(rig(), None, use, TERMS).reason, tells="--price")
    here = msgspec.structs.replace(rig(), name="here: card")
    wording(own(here, None, use, TERMS).reason, tells="--price")
    wording(own(rig(watts=None), price(1), use, TERMS).reason, tells="--watts")
    wording(own(rig(None, "no"), price(1), use, TERMS).reason)
    assert rent(rig(fits="no"), price(1), use, all_day=False).per_million is None
    part = wording(own(rig(fits="partly"), price(1), use, TERMS).reason)
    too_much = own(rig(fits="partly"), None, use_of(9e6, 0), TERMS).reason
    wording(too_much, tells=("864,000", part, "--price"))  # each of them counts


def test_a_rented_device_costs_its_busy_hours_or_the_whole_day() -> None:
    use = use_of(86_400, 0)
    busy, always = (rent(rig(), price(2, "rent"), use, all_day=all_day) for all_day in (False, True))
    assert busy.per_month == pytest.approx(2.4 * MONTH_DAYS * 2)
    assert always.per_month == pytest.approx(24 * MONTH_DAYS * 2)


def test_an_api_is_paid_for_what_goes_in_and_out() -> None:
    way = api("API", price(1.5), 0.5, use_of(1_000_000, 3))
    assert way.per_million == pytest.approx(3.0)
    assert way.per_month == pytest.approx(3.0 * MONTH_DAYS)


def test_owning_has_paid_when_what_is_saved_reaches_the_price() -> None:
    use = use_of(86_400, 0)
    mine, other = own(rig(), price(1200), use, TERMS), rent(rig(), price(2, "rent"), use, all_day=True)
    found = break_even(mine, other, TERMS)
    assert found is not None
    assert found.months is not None
    assert mine.power_per_month is not None
    assert other.per_month is not None
    assert found.months * other.per_month == pytest.approx(1200 + found.months * mine.power_per_month)
    never = break_even(mine, api("API", price(0.001), 0.0, use), TERMS)
    assert never is not None
    assert never.months is None
    assert break_even(own(rig(), None, use, TERMS), other, TERMS) is None
    too_much = use_of(2_000_000, 0)
    assert break_even(own(rig(), price(1), too_much, TERMS), api("API", price(1), 0, too_much), TERMS) is None


def test_the_cheapest_that_can_do_it_is_first() -> None:
    use = use_of(2_000_000, 0)
    ways = [own(rig(), price(10), use, TERMS), api("dear", price(9), 1, use), api("cheap", price(1), 1, use)]
    assert [way.name for way in cheapest_first(ways)] == ["cheap", "dear", "card"]
    assert [way.name for way in rivals(ways)] == ["cheap", "dear"]


def test_hours_are_turned_into_tokens() -> None:
    speed = rig().speed
    assert speed is not None
    assert tokens_in(1, speed, 0) == pytest.approx(36_000)


def test_assumptions_name_their_flags(wording) -> None:
    said = " ".join(assumptions(TERMS, use_of(1, 3), "EUR", users=1, electricity_said=False, has_own=True))
    assert all(
        flag in said for flag in ("--users", "--prompt-ratio", "--electricity", "--watts", "--resale", "--host-price")
    )
    measured = Terms(0.3, 3, resale=100, host_price=5, watts=80, power_share=0.7)
    told = " ".join(assumptions(measured, use_of(1, 3), "EUR", users=8, electricity_said=True, has_own=True))
    wording(told, tells=("80 W", "100 EUR"))
    share = Terms(0.3, 3, power_share=0.7)
    wording(tuple(assumptions(share, use_of(1, 3), "EUR", users=1, electricity_said=True, has_own=True)), tells="70%")
    assert len([*assumptions(TERMS, use_of(1, 3), "EUR", users=1, electricity_said=False, has_own=False)]) == 2


def test_what_takes_longer_than_it_is_used_does_not_pay(wording) -> None:
    said = [paid_after(BreakEvenShown(own="A", against="B", months=months), 3) for months in (None, 7.9, 36.0, 50.0)]
    wording(said[0])
    wording(said[1:3], tells=("7.9", "3.0"))
    wording(said[3], tells="4.2")


def test_sources_stand_below(wording) -> None:
    use, launch = use_of(1000, 0), PriceShown(amount=1, currency="USD", kind="launch", date="2025", checked=False)
    seen = PriceShown(amount=2, currency="USD", kind="rent", date="2026-01-01", seller="S", source="page", old=True)
    ways = [own(rig(), launch, use, TERMS), rent(rig(), seen, use, all_day=False)]
    said = " ".join(notes_on(ways, BuyerPrices({})))
    wording(said, tells=("2025", "2026-01-01"))
    assert "--api" in said
    assert "--rent" not in said
    assert "--rent" in " ".join(notes_on(ways[:1], BuyerPrices({})))
    wording([*notes_on(ways, BuyerPrices({}, "EUR"))][-1], tells="EUR")
