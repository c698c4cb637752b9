"""What tokens cost with real speeds, and what each size of memory runs."""

from pathlib import Path
from typing import Any

import pytest
from tests.market_day import MarketDay

from unslow.buy.cost import CostReport, WayShown, cost
from unslow.buy.rigs import api_amounts, named_amount
from unslow.buy.tiers import TierShown, tiers
from unslow.commands._buyer import parse_amount, parse_goal
from unslow.commands.cost import CostRequest
from unslow.commands.tiers import TiersRequest
from unslow.facts.errors import UserError
from unslow.facts.values import GIB


def asked(**flags: Any) -> CostReport:
    given = {"model": "llama-3.3-70b", "device": ["2x RTX 3090"], "tokens_per_day": "200k", **flags}
    return cost(MarketDay(), CostRequest.from_flags(given))


def way(report: CostReport, how: str) -> WayShown:
    return next(found for found in report.ways if found.how == how)


def test_own_rent_and_api_are_priced_for_the_same_tokens() -> None:
    report = asked()
    assert report.use.tokens_per_day == 200_000
    mine = way(report, "own")
    assert mine.per_month == pytest.approx((mine.capital_per_month or 0) + (mine.power_per_month or 0))
    assert mine.capital_per_month == pytest.approx(1400 / 36)
    sold = way(report, "api")
    assert sold.per_million == pytest.approx(0.32 + 3 * 0.10)  # DeepInfra's, with three prompt tokens for each
    assert next(b.months for b in report.break_even if b.against == sold.name) is None
    assert {found.how for found in report.ways} == {"own", "rent", "rent all day", "api"}
    per_million = [found.per_million for found in report.ways if found.per_million]
    assert per_million == sorted(per_million)


def test_user_rents_and_apis_replace_builtin_ones() -> None:
    report = asked(price=["RTX 3090=500"], rent=["H100 SXM=2/h"], api=["mine=1/2 per M"], electricity="0.1", years="2")
    assert way(report, "own").capital_per_month == pytest.approx(1000 / 24)
    assert {found.name for found in report.ways if found.how == "rent"} == {"H100 SXM"}
    assert way(report, "api").name == "API mine"
    assert way(report, "api").per_million == pytest.approx(5)
    assert not any("assumed" in text and "kWh" in text for text in report.assumptions)


def test_prices_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    text = 'currency = "EUR"\nelectricity = 0.4\n[prices]\n"RTX 3090" = 600\n[rents]\n"H100" = 3\n[apis]\nx = "1/2"\n'
    file.write_text(text, "utf-8")
    report = asked(prices=str(file), rent=[])
    assert (report.currency, report.electricity_per_kwh) == ("EUR", 0.4)
    assert [found.price.amount for found in report.ways if found.how == "own" and found.price] == [1200]
    assert way(report, "api").name == "API x"
    for wrong in ("[prices]\na = true\n", "[other]\n", "prices = 3\n", "= 3", '[prices]\n"RTX 3090" = -1\n'):
        file.write_text(wrong, "utf-8")
        with pytest.raises(UserError):
            asked(prices=str(file))


def test_hours_per_day_and_utilisation_refer_to_the_first_device() -> None:
    hours = asked(tokens_per_day=None, hours_per_day="6")
    share = asked(tokens_per_day=None, utilisation="0.25")
    assert way(hours, "own").busy_share == pytest.approx(0.25)
    assert share.use.tokens_per_day == pytest.approx(hours.use.tokens_per_day)


def test_device_with_too_little_throughput_is_not_enough() -> None:
    mine = way(asked(tokens_per_day="20m"), "own")
    assert mine.enough is False
    assert "at most" in mine.reason


@pytest.mark.parametrize(
    "flags",
    [
        {"tokens_per_day": None}, {"hours_per_day": "4"}, {"tokens_per_day": None, "utilisation": "0"},
        {"tokens_per_day": None, "hours_per_day": "3", "device": []}, {"api": ["1/2/3"]}, {"rent": ["H100"]},
        {"years": "0"}, {"electricity": "cheap"}, {"resale": "2600"},
    ],
)  # fmt: skip
def test_invalid_cost_request_is_a_user_error_with_a_hint(flags: dict[str, Any]) -> None:
    with pytest.raises(UserError) as error:
        asked(**flags)
    assert error.value.hint


def test_price_amounts_are_parsed_in_common_notations() -> None:
    assert [parse_amount(text) for text in ("700", "1,499", "$1.5k", "2m", "99.5 EUR")] == [700, 1499, 1500, 2e6, 99.5]
    assert [parse_goal(text) for text in ("20 tok/s", "20", "12.5 t/s", "20 tokens per second")] == [20, 20, 12.5, 20]
    assert named_amount("RTX 3090 = 700", "--price") == ("RTX 3090", 700)
    assert named_amount("H100=2.5/h", "--rent") == ("H100", 2.5)
    assert api_amounts("0.5/1.5 per M") == ("", 0.5, 1.5)
    assert api_amounts("mine=2") == ("mine", 2, 2)


def tier(size: int, **flags: Any) -> TierShown:
    (found,) = tiers(MarketDay(), TiersRequest.from_flags({"memory": str(size), "rows": "2", **flags})).tiers
    return found


def test_tier_lists_models_that_fit_and_near_misses() -> None:
    small = tier(8)
    assert small.memory_bytes == 8 * GIB
    assert small.device
    assert all(7e9 < run.parameters < 11e9 and run.weights_bytes < 7 * GIB for run in small.runs)
    assert all(run.tokens_per_s and run.tokens_per_s.mid > 5 for run in small.runs)
    assert all((run.most_context or 0) >= 8192 for run in small.runs)
    assert all(missed.lacks_bytes > 0 for missed in small.misses)


def test_70b_in_4_bits_fits_in_48_gb_but_not_24() -> None:
    assert not any(run.parameters > 60e9 for run in tier(24, rows="1").runs)
    large = next(run for run in tier(48).runs if run.model == "Llama-3.3-70B")
    assert large.quant.startswith("Q4")
    assert large.alike >= 3


@pytest.mark.real
def test_all_tiers_are_computed_within_seconds() -> None:
    report = tiers(MarketDay(), TiersRequest())
    assert len(report.tiers) == 10
    largest = [one.runs[0].parameters for one in report.tiers if not one.unified]
    assert largest == sorted(largest)
    finer = tiers(MarketDay(), TiersRequest(memory=(8 * GIB,), quant_least="Q8_0")).tiers[0]
    assert finer.runs[0].parameters < report.tiers[0].runs[0].parameters
    assert finer.runs[0].quant == "Q8_0"


def test_tier_prefers_newer_versions_and_long_context_models() -> None:
    names = [run.model for run in tier(12, rows="4").runs]
    assert "Qwen3-14B" in names
    assert not {"Qwen2.5-14B", "StarCoder2-15B", "Moonlight-16B-A3B"} & set(names)
    shared = tiers(MarketDay(), TiersRequest.from_flags({"unified": "16", "rows": "2"})).tiers[0]
    assert not any("host" in missed.would_fit for missed in shared.misses)  # it is the same memory


def test_size_without_a_device_has_no_speed_and_unified_holds_less() -> None:
    odd = tier(7, rows="1")
    assert (odd.device, odd.bytes_per_s) == ("", None)
    assert odd.runs[0].tokens_per_s is None
    shared = tiers(MarketDay(), TiersRequest.from_flags({"unified": "16", "rows": "1"})).tiers[0]
    assert shared.unified
    assert shared.runs[0].weights_bytes < 12 * GIB
    with pytest.raises(UserError):
        tiers(MarketDay(), TiersRequest.from_flags({"unified": "17"}))
    with pytest.raises(UserError):
        tiers(MarketDay(), TiersRequest.from_flags({"memory": ",".join(["8"] * 30)}))
