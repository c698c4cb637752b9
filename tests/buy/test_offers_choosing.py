"""The choice: cheapest that reaches the goal, never what does not fit, and more money never a slower one."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.buy.choose import assumptions, explained
from unslow.buy.offers import Aim, OfferShown, chosen, low, refusal
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
def test_more_budget_never_chooses_slower_or_nothing(
    market: list[OfferShown], budget: float, more: float, goal: float | None
) -> None:
    less = chosen(market, Aim(budget, goal)).best
    richer = chosen(market, Aim(budget + more, goal)).best
    if less is not None:
        assert richer is not None
        assert low(richer) >= low(less)


@settings(max_examples=50)
@given(offers, st.one_of(st.none(), st.floats(0, 5000)), st.one_of(st.none(), st.floats(0.1, 400)))
def test_what_is_chosen_fits_is_paid_and_reaches_the_goal(
    market: list[OfferShown], budget: float | None, goal: float | None
) -> None:
    aim = Aim(budget, goal)
    heaps = chosen(market, aim)
    for found in ((heaps.best,) if heaps.best else ()) + heaps.runners_up:
        assert found.rig.fits != "no"
        assert goal is None or low(found) >= goal
        assert budget is None or (found.total is not None and found.total <= budget)
    fine = sum(refusal(one, aim) is None for one in market)
    assert fine + sum(heap.count for heap in heaps.refused) == len(market)


def test_with_a_goal_the_cheapest_and_without_one_the_fastest() -> None:
    market = [offer("slow", 12, 200), offer("fine", 25, 700), offer("fast", 60, 1400), offer("dear", 90, 3000)]
    heaps = chosen(market, Aim(1500, 20))
    assert heaps.best is market[1]
    assert heaps.runners_up == (market[2],)
    assert {heap.why: heap.count for heap in heaps.refused} == {"too_slow": 1, "too_dear": 1}
    fastest = chosen(market, Aim(1500)).best
    assert fastest is market[2]
    anything = chosen(market, Aim()).best
    assert anything is market[3]


def test_for_the_same_price_the_finer_quant_is_taken() -> None:
    coarse = offer("coarse", 40, 700)
    fine = msgspec.structs.replace(coarse, rig=msgspec.structs.replace(offer("fine", 25, 700).rig, quant="Q6_K"))
    assert chosen([coarse, fine], Aim(1000, 20)).best is fine
    assert chosen([coarse, fine], Aim(1000)).best is coarse


def test_an_unknown_price_can_not_be_held_against_a_budget(wording) -> None:
    unknown = offer("unknown", 80, None)
    heaps = chosen([unknown], Aim(1500, 20))
    assert heaps.best is None
    assert [heap.why for heap in heaps.refused] == ["price_unknown"]
    assert "--price" in heaps.refused[0].words
    assert chosen([unknown], Aim(None, 20)).best is unknown
    said = explained(unknown, (), Aim(None, 20), "USD").reasons[0]
    assert "cheapest" not in said
    wording(said)


def test_of_those_without_a_price_the_ones_that_once_cost_least_are_nearest() -> None:
    market = [offer("RTX 4090", 30, None), offer("RTX 3090", 40, None), offer("nobody's", 21, None)]
    (heap,) = chosen(market, Aim(1500, 20)).refused
    assert [near.rig.name for near in heap.nearest] == ["RTX 3090", "RTX 4090", "nobody's"]


def test_with_a_part_on_the_host_it_is_said_that_not_even_that_helps(wording) -> None:
    (heap,) = chosen([offer("small", 5, 100, "no")], Aim(1500, 20, partly=True)).refused
    wording(heap.words)


def test_why_something_is_refused_goes_from_the_model_to_the_money() -> None:
    aim = Aim(100, 20)
    assert refusal(offer("a", 5, 900, "no"), aim) == "does_not_fit"
    assert refusal(offer("a", None, 900, "unknown"), aim) == "cannot_tell"
    assert refusal(offer("a", 5, 900), aim) == "too_slow"
    assert refusal(offer("a", 50, 900), aim) == "too_dear"


def test_the_nearest_misses_are_those_that_could_be_paid() -> None:
    market = [offer("dear", 19, 5000), offer("near", 18, 900), offer("far", 3, 100), offer("unknown", 19.5, None)]
    (heap,) = chosen(market, Aim(1000, 20)).refused
    assert [near.rig.name for near in heap.nearest][:2] == ["near", "far"]


def test_reasons_name_the_goal_the_rest_and_what_others_do_better(wording) -> None:
    market = [offer("fine", 25, 700, watts=350), offer("fast", 60, 1400, watts=200)]
    aim = Aim(1500, 20)
    heaps = chosen(market, aim)
    assert heaps.best is not None
    said = explained(heaps.best, heaps.runners_up, aim, "EUR").reasons
    wording(said[0], tells="25.0 tok/s")
    wording(said, tells=("800", "2.4", "200 W", "350 W"))
    wording(explained(offer("here", 30, 0.0), (), aim, "USD").reasons[0], tells="30.0 tok/s")
    wording(explained(market[0], (), Aim(1500), "USD").reasons[0])
    pair = msgspec.structs.replace(market[0], rig=msgspec.structs.replace(market[0].rig, count=2))
    wording(explained(pair, (), aim, "USD").reasons, tells="350 W")
    part = explained(offer("small", 25, 700, "partly"), (), aim, "USD", weights_bytes=51 * 2**30 + 1).reasons
    wording(part, tells=("Q4_K_M", "51 GiB"))
    wording(said, tells="2.4")
    assert explained(offer("x", None, 1.0), (), aim, "USD").reasons == ()


def test_the_computer_around_a_card_is_an_assumption() -> None:
    assert any("--host-price" in text for text in assumptions(Aim(1, 1), 0, "USD", ASKED, ""))
    assert any("costs 800 USD" in text for text in assumptions(Aim(1, 1), 800, "USD", ASKED, ""))
    assert not any("--host-price" in text for text in assumptions(Aim(), 0, "USD", ASKED, "RTX 3060"))
