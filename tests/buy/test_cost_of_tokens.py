"""Cost of tokens: totals add up, insufficient capacity is stated, and break-even is correct."""

import msgspec
import pytest

from unslow.buy.cost import (
    MONTH_DAYS,
    BreakEvenShown,
    Terms,
    UseShown,
    alternatives,
    api_way,
    assumptions,
    break_even,
    break_even_words,
    cheapest_first,
    notes_on,
    own_way,
    rent_way,
    seconds_per_token,
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


def use_of(tokens: float, ratio: float) -> UseShown:
    prompts = tokens * ratio
    return UseShown(tokens_per_day=tokens, prompt_tokens_per_day=prompts, prompt_ratio=ratio, said="tokens_per_day")


def price(amount: float, kind: str = "yours") -> PriceShown:
    return PriceShown(amount=amount, currency="USD", kind="yours" if kind == "yours" else "rent", source="somewhere")


def test_owning_costs_depreciation_plus_power_under_load() -> None:
    way = own_way(rig(), price(1200), use_of(86_400, 0), TERMS)
    assert way.busy_share == pytest.approx(0.1)  # 86,400 tokens at 10 a second take a tenth of a day
    assert way.capital_per_month == pytest.approx(50)
    assert way.power_per_month == pytest.approx(0.1 * 24 * MONTH_DAYS * 0.5 * 0.30)
    assert way.per_month == pytest.approx(way.capital_per_month + way.power_per_month)
    assert way.per_million == pytest.approx(way.per_month / (86_400 * MONTH_DAYS) * 1e6)
    assert (way.enough, way.reason, way.most_tokens_per_day) == (True, "", pytest.approx(864_000))


def test_prompt_tokens_add_to_the_busy_time() -> None:
    plain, with_prompts = (own_way(rig(), price(1), use_of(1000, ratio), TERMS).busy_share for ratio in (0, 100))
    assert plain is not None
    assert with_prompts == pytest.approx(2 * plain)  # 100 tokens at 1,000 a second are as long as one at 10


def test_busy_share_above_one_means_not_enough_capacity(wording) -> None:
    way = own_way(rig(), price(1200), use_of(2_000_000, 0), TERMS)
    assert (way.enough, way.busy_share) == (False, pytest.approx(2.31, rel=0.01))
    wording(way.reason, tells="864,000")
    cheaper = own_way(rig(), price(1200), use_of(864_000, 0), TERMS)
    assert way.per_million == pytest.approx(cheaper.per_million)  # of the tokens that it does make


def test_measured_watts_resale_and_host_price_are_counted() -> None:
    terms = Terms(0.30, 2, resale=240, host_price=480, watts=100)
    way = own_way(rig(), price(1200), use_of(86_400, 0), terms)
    assert way.watts == 100
    assert way.capital_per_month == pytest.approx(60)
    unified = own_way(rig(kind="unified"), price(1200), use_of(86_400, 0), terms)
    assert unified.capital_per_month == pytest.approx(40)  # no computer around a computer


def test_unknown_price_power_or_fit_is_stated_as_the_reason(wording) -> None:
    use = use_of(1000, 0)
    wording(own_way(rig(), None, use, TERMS).reason, tells="--price")
    here = msgspec.structs.replace(rig(), name="here: card")
    wording(own_way(here, None, use, TERMS).reason, tells="--price")
    wording(own_way(rig(watts=None), price(1), use, TERMS).reason, tells="--watts")
    wording(own_way(rig(None, "no"), price(1), use, TERMS).reason)
    assert rent_way(rig(fits="no"), price(1), use, all_day=False).per_million is None
    part = wording(own_way(rig(fits="partly"), price(1), use, TERMS).reason)
    too_much = own_way(rig(fits="partly"), None, use_of(9e6, 0), TERMS).reason
    wording(too_much, tells=("864,000", part, "--price"))  # each of them counts


def test_renting_costs_busy_hours_or_the_whole_day() -> None:
    use = use_of(86_400, 0)
    busy, always = (rent_way(rig(), price(2, "rent"), use, all_day=all_day) for all_day in (False, True))
    assert busy.per_month == pytest.approx(2.4 * MONTH_DAYS * 2)
    assert always.per_month == pytest.approx(24 * MONTH_DAYS * 2)


def test_api_cost_counts_input_and_output_tokens() -> None:
    way = api_way("API", price(1.5), 0.5, use_of(1_000_000, 3))
    assert way.per_million == pytest.approx(3.0)
    assert way.per_month == pytest.approx(3.0 * MONTH_DAYS)


def test_break_even_is_price_divided_by_monthly_savings() -> None:
    use = use_of(86_400, 0)
    mine, other = own_way(rig(), price(1200), use, TERMS), rent_way(rig(), price(2, "rent"), use, all_day=True)
    found = break_even(mine, other, TERMS)
    assert found is not None
    assert found.months is not None
    assert mine.power_per_month is not None
    assert other.per_month is not None
    assert found.months * other.per_month == pytest.approx(1200 + found.months * mine.power_per_month)
    never = break_even(mine, api_way("API", price(0.001), 0.0, use), TERMS)
    assert never is not None
    assert never.months is None
    assert break_even(own_way(rig(), None, use, TERMS), other, TERMS) is None
    too_much = use_of(2_000_000, 0)
    assert break_even(own_way(rig(), price(1), too_much, TERMS), api_way("API", price(1), 0, too_much), TERMS) is None


def test_ways_with_enough_capacity_are_sorted_by_cost() -> None:
    use = use_of(2_000_000, 0)
    ways = [
        own_way(rig(), price(10), use, TERMS),
        api_way("dear", price(9), 1, use),
        api_way("cheap", price(1), 1, use),
    ]
    assert [way.name for way in cheapest_first(ways)] == ["cheap", "dear", "card"]
    assert [way.name for way in alternatives(ways)] == ["cheap", "dear"]


def test_hours_per_day_convert_to_tokens_by_speed() -> None:
    speed = rig().speed
    assert speed is not None
    assert 3600 / seconds_per_token(speed, 0) == pytest.approx(36_000)


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


def test_break_even_words_cover_never_months_and_beyond_use(wording) -> None:
    said = [
        break_even_words(BreakEvenShown(own="A", against="B", months=months), 3) for months in (None, 7.9, 36.0, 50.0)
    ]
    wording(said[0])
    wording(said[1:3], tells=("7.9", "3.0"))
    wording(said[3], tells="4.2")


def test_notes_name_the_price_sources(wording) -> None:
    use, launch = use_of(1000, 0), PriceShown(amount=1, currency="USD", kind="launch", date="2025", checked=False)
    seen = PriceShown(amount=2, currency="USD", kind="rent", date="2026-01-01", seller="S", source="page", old=True)
    ways = [own_way(rig(), launch, use, TERMS), rent_way(rig(), seen, use, all_day=False)]
    said = " ".join(notes_on(ways, BuyerPrices({})))
    wording(said, tells=("2025", "2026-01-01"))
    assert "--api" in said
    assert "--rent" not in said
    assert "--rent" in " ".join(notes_on(ways[:1], BuyerPrices({})))
    wording([*notes_on(ways, BuyerPrices({}, "EUR"))][-1], tells="EUR")
