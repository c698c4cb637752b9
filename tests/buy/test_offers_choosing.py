"""The choice: the cheapest that reaches the goal, never one that does not fit, never slower with more budget."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.buy.choose import assumptions, reasons
from unslow.buy.offers import Aim, OfferShown, choose_offer, low_rate, refusal
from unslow.buy.report import AskedShown, Fits, RigShown, SpeedShown
from unslow.think.speed.report import RateShown

ASKED = AskedShown(
    model="m", quant="Q4_K_M", parameters=1, weights_bytes=1, context=8192, users=1, prompt_tokens=512
)  # fmt: skip


def offer(name: str, speed: float | None, total: float | None, fits: Fits = "whole", watts: float = 300) -> OfferShown:
    rate = RateShown(low=speed or 0, mid=1.1 * (speed or 0), high=1.2 * (speed or 0))
    shown = SpeedShown(decode_tokens_per_s=rate, each_tokens_per_s=rate, prefill_tokens_per_s=rate, first_token_s=rate)
    rig = RigShown(
        name=name, device=name, vendor="", kind="gpu", year=2025, memory_bytes=1, bytes_per_s=1.0, tdp_w=watts,
        quant="Q4_K_M", fits=fits, speed=shown if speed is not None else None,
    )  # fmt: skip
    return OfferShown(rig=rig, total=total)


offers = st.lists(
    st.builds(
        offer, st.text("abc", min_size=1, max_size=4), st.one_of(st.none(), st.floats(0.1, 500)),
        st.one_of(st.none(), st.floats(0, 5000)), st.sampled_from(["whole", "partly", "no"]),
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=50)
@given(offers, st.floats(0, 5000), st.floats(0, 5000), st.one_of(st.none(), st.floats(0.1, 400)))
def test_larger_budget_never_chooses_slower_or_nothing(
    market: list[OfferShown], budget: float, more: float, goal: float | None
) -> None:
    less = choose_offer(market, Aim(budget, goal)).best
    richer = choose_offer(market, Aim(budget + more, goal)).best
    if less is not None:
        assert richer is not None
        assert low_rate(richer) >= low_rate(less)


@settings(max_examples=50)
@given(offers, st.one_of(st.none(), st.floats(0, 5000)), st.one_of(st.none(), st.floats(0.1, 400)))
def test_chosen_offer_fits_is_affordable_and_reaches_the_goal(
    market: list[OfferShown], budget: float | None, goal: float | None
) -> None:
    aim = Aim(budget, goal)
    heaps = choose_offer(market, aim)
    for found in ((heaps.best,) if heaps.best else ()) + heaps.runners_up:
        assert found.rig.fits != "no"
        assert goal is None or low_rate(found) >= goal
        assert budget is None or (found.total is not None and found.total <= budget)
    fine = sum(refusal(one, aim) is None for one in market)
    assert fine + sum(heap.count for heap in heaps.refused) == len(market)


def test_goal_picks_the_cheapest_and_no_goal_the_fastest() -> None:
    market = [offer("slow", 12, 200), offer("fine", 25, 700), offer("fast", 60, 1400), offer("dear", 90, 3000)]
    heaps = choose_offer(market, Aim(1500, 20))
    assert heaps.best is market[1]
    assert heaps.runners_up == (market[2],)
    assert {heap.why: heap.count for heap in heaps.refused} == {"too_slow": 1, "too_dear": 1}
    fastest = choose_offer(market, Aim(1500)).best
    assert fastest is market[2]
    anything = choose_offer(market, Aim()).best
    assert anything is market[3]


def test_equal_price_picks_the_finer_quant() -> None:
    coarse = offer("coarse", 40, 700)
    fine = msgspec.structs.replace(coarse, rig=msgspec.structs.replace(offer("fine", 25, 700).rig, quant="Q6_K"))
    assert choose_offer([coarse, fine], Aim(1000, 20)).best is fine
    assert choose_offer([coarse, fine], Aim(1000)).best is coarse


def test_unknown_price_is_refused_under_a_budget(wording) -> None:
    unknown = offer("unknown", 80, None)
    heaps = choose_offer([unknown], Aim(1500, 20))
    assert heaps.best is None
    assert [heap.why for heap in heaps.refused] == ["price_unknown"]
    assert "--price" in heaps.refused[0].words
    assert choose_offer([unknown], Aim(None, 20)).best is unknown
    said = next(reasons(unknown, (), Aim(None, 20), "USD"))
    assert "cheapest" not in said
    wording(said)


def test_unpriced_offers_are_ordered_by_earlier_price() -> None:
    market = [offer("RTX 4090", 30, None), offer("RTX 3090", 40, None), offer("nobody's", 21, None)]
    (heap,) = choose_offer(market, Aim(1500, 20)).refused
    assert [near.rig.name for near in heap.nearest] == ["RTX 3090", "RTX 4090", "nobody's"]


def test_partly_refusal_says_partial_offload_does_not_fit_either(wording) -> None:
    (heap,) = choose_offer([offer("small", 5, 100, "no")], Aim(1500, 20, partly=True)).refused
    wording(heap.words)


def test_refusal_checks_fit_then_speed_then_price() -> None:
    aim = Aim(100, 20)
    assert refusal(offer("a", 5, 900, "no"), aim) == "does_not_fit"
    assert refusal(offer("a", None, 900, "unknown"), aim) == "cannot_tell"
    assert refusal(offer("a", 5, 900), aim) == "too_slow"
    assert refusal(offer("a", 50, 900), aim) == "too_dear"


def test_nearest_refused_offers_put_affordable_ones_first() -> None:
    market = [offer("dear", 19, 5000), offer("near", 18, 900), offer("far", 3, 100), offer("unknown", 19.5, None)]
    (heap,) = choose_offer(market, Aim(1000, 20)).refused
    assert [near.rig.name for near in heap.nearest][:2] == ["near", "far"]


def test_reasons_name_goal_remaining_budget_and_better_alternatives(wording) -> None:
    market = [offer("fine", 25, 700, watts=350), offer("fast", 60, 1400, watts=200)]
    aim = Aim(1500, 20)
    heaps = choose_offer(market, aim)
    assert heaps.best is not None
    said = tuple(reasons(heaps.best, heaps.runners_up, aim, "EUR"))
    wording(said[0], tells="25.0 tok/s")
    wording(said, tells=("800", "2.4", "200 W", "350 W"))
    wording(next(reasons(offer("here", 30, 0.0), (), aim, "USD")), tells="30.0 tok/s")
    wording(next(reasons(market[0], (), Aim(1500), "USD")))
    pair = msgspec.structs.replace(market[0], rig=msgspec.structs.replace(market[0].rig, count=2))
    wording(tuple(reasons(pair, (), aim, "USD")), tells="350 W")
    part = tuple(reasons(offer("small", 25, 700, "partly"), (), aim, "USD", weights_bytes=51 * 2**30 + 1))
    wording(part, tells=("Q4_K_M", "51 GiB"))
    wording(said, tells="2.4")


def test_host_computer_is_listed_as_an_assumption() -> None:
    assert any("--host-price" in text for text in assumptions(Aim(1, 1), 0, "USD", ASKED, ""))
    assert any("costs 800 USD" in text for text in assumptions(Aim(1, 1), 800, "USD", ASKED, ""))
    assert not any("--host-price" in text for text in assumptions(Aim(), 0, "USD", ASKED, "RTX 3060"))
