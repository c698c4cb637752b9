"""What to buy: on the real catalogue, with the real predictor."""

from typing import Any

import pytest
from tests.market_day import MarketDay

from unslow.buy.choose import choose
from unslow.buy.offers import ChoiceReport, OfferShown, alike_rooms
from unslow.commands.choose import ChooseRequest
from unslow.facts.errors import UserError
from unslow.think.hardware import Room

FEW = ("RTX 3060", "RTX 3090", "RTX 4090", "RTX 5060 Ti 16GB", "RTX 5050", "RTX 5090", "Strix Halo", "H100 PCIe")


def asked(model: str = "qwen3-32b", **flags: Any) -> ChoiceReport:
    given = {"model": model, "among": list(FEW), **flags}
    return choose(MarketDay(), ChooseRequest.from_flags(given))


def best(report: ChoiceReport) -> OfferShown:
    assert report.chosen is not None
    assert report.chosen.rig.speed is not None
    return report.chosen


def low(offer: OfferShown) -> float:
    assert offer.rig.speed is not None
    return offer.rig.speed.each_tokens_per_s.low


def test_a_32b_model_for_1500_usd_chooses_a_used_rtx_3090() -> None:
    report = asked(budget="1500", goal="20 tok/s", among=None)
    found = best(report)
    assert (found.rig.name, found.rig.fits, found.total) == ("RTX 3090", "whole", 700)
    assert low(found) >= 20
    assert found.margin == pytest.approx(low(found) / 20)
    assert {"too_dear", "does_not_fit", "too_slow", "price_unknown"} == {heap.why for heap in report.refused}
    assert sum(heap.count for heap in report.refused) > 400
    assert all(o.total is not None and o.total <= 1500 for o in report.runners_up)


def test_a_larger_budget_never_chooses_a_slower_device() -> None:
    found = [best(asked(budget=str(budget))) for budget in (700, 1700, 20000)]
    assert [low(one) for one in found] == sorted(low(one) for one in found)
    assert {one.rig.quant for one in found} == {"Q4_K_M"}


def test_unreachable_goal_lists_budget_model_and_goal_alternatives() -> None:
    report = asked("llama-3.3-70b", budget="1500", goal="20", among=["RTX 3090", "RTX 5090"])
    assert report.chosen is None
    ways = {way.gives: way.words for way in report.ways}
    assert "budget" in ways
    assert "Llama-3" in ways["model"]
    assert "Llama-2" not in ways["model"]  # it was trained for half of that context
    assert "2x RTX 3090" in ways["goal"]


def test_unreachable_goal_suggests_a_coarser_quant() -> None:
    report = asked("llama-3.3-70b", budget="1500", goal="11", quant_least="Q5_K_M", among=["RTX 3090"])
    assert report.chosen is None
    assert any(way.gives == "quant" and "--quant-least" in way.words for way in report.ways)


def test_unreachable_goal_suggests_partial_offload_to_host_memory() -> None:
    report = asked("gpt-oss-120b", budget="800", goal="10", among=["RTX 3090"])
    assert any(way.gives == "host" and "--partly" in way.words for way in report.ways)


def test_suggested_smaller_model_runs_on_the_cheapest_device() -> None:
    fast = ["RTX 3090", "RTX 5070 Ti", "RTX 5080", "RX 7900 XTX", "RX 9070 XT", "RTX 5070", "RTX 4070 Ti SUPER"]
    report = asked("llama-3.3-70b", budget="1500", goal="20", among=[*fast, "RTX 5050"])
    words = next(way.words for way in report.ways if way.gives == "model")
    assert "RTX 5050" in words  # though all others have more memory and are faster


def test_among_with_a_memory_size_keeps_only_that_size() -> None:
    report = asked("qwen3-8b", among=["M4 Max 64GB"])
    assert [best(report).rig.name, *(one.rig.name for one in report.runners_up)] == ["Apple M4 Max 64GB"]
    macs = asked("qwen3-32b", goal="15", among=["Apple"], price=["M4 Max 64GB=3500"], budget="4000")
    assert {one.rig.vendor for one in (best(macs), *macs.runners_up)} == {"Apple"}


def test_the_finest_quant_that_reaches_the_goal_is_chosen() -> None:
    assert best(asked("llama-3.1-8b", budget="700", goal="20", price=["RTX 3090=1"])).rig.quant == "Q8_0"
    assert best(asked("llama-3.1-8b", budget="700", goal="20", quant="Q4_0", price=["RTX 3090=1"])).rig.quant == "Q4_0"
    assert best(asked("llama-3.1-8b:q5_k_m", goal="20", among=["RTX 3090"])).rig.quant == "Q5_K_M"


def test_owned_gpu_is_offered_alone_or_with_a_second_card(wording) -> None:
    done = best(asked("llama-3.1-8b", goal="30", budget="500", have="RTX 3090", quant="Q4_K_M"))
    assert done.total == 0
    wording(done.rig.name, tells="RTX 3090")
    more = asked("llama-3.3-70b", goal="10", budget="1000", have="RTX 3090", quant="Q4_K_M", among=["RTX 3090"])
    wording(best(more).rig.name, tells="RTX 3090")
    assert best(more).total == 700
    assert best(more).rig.memory_bytes == 48 * 2**30
    unlike = best(asked("gpt-oss-20b", goal="40", budget="300", have="RTX 3060"))
    wording(unlike.rig.name, tells="RTX 3060")
    wording(unlike.rig.notes)


def test_host_price_is_added_to_cards_without_a_computer() -> None:
    alone, both = (best(asked(goal="20", quant="Q4_K_M", host_price=price)).total for price in ("0", "800"))
    assert alone is not None
    assert both == alone + 800


def test_unified_memory_machine_is_chosen_with_a_user_price() -> None:
    assert asked("gpt-oss-120b", goal="15", budget="2500").chosen is None  # it was last seen for 3,999
    report = asked("gpt-oss-120b", goal="15", budget="2500", price=["Strix Halo=2000"])
    assert best(report).rig.device.startswith("Strix Halo")


def test_partial_offload_counts_only_with_partly() -> None:
    assert asked("gpt-oss-120b", goal="10", budget="800", among=["RTX 3090"]).chosen is None
    report = asked("gpt-oss-120b", goal="10", budget="800", partly=True, among=["RTX 3090"])
    assert best(report).rig.fits == "partly"
    assert any("host memory" in text for text in report.assumptions)


def test_two_different_cards_count_less_than_their_total_memory() -> None:
    rooms = [Room("a", 8 * 2**30, reserve_bytes=2**29), Room("b", 24 * 2**30, others_bytes=2**30)]
    alike = alike_rooms(rooms, largest_layer=2**29)
    assert len({room.usable_bytes for room in alike}) == 1
    assert sum(room.usable_bytes for room in alike) == sum(room.usable_bytes for room in rooms) - 2**29


@pytest.mark.parametrize(
    "flags",
    [
        {"goal": "fast"},
        {"budget": "-3"},
        {"budget": "much"},
        {"have": "nobody"},
        {"among": ["M4 Maxx"]},
        {"price": ["RTX 3090 Tii=9"]},
    ],
)
def test_invalid_choose_request_is_a_user_error_with_a_hint(flags: dict[str, Any]) -> None:
    with pytest.raises(UserError) as error:
        asked(**flags)
    assert error.value.hint
