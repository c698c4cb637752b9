"""The buyer's answers in a terminal: nothing is wider than it, and no number is cut."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.market_day import MarketDay

from unslow.buy.choose import choose
from unslow.buy.cost import cost
from unslow.buy.devices import devices
from unslow.buy.offers import ChoiceReport
from unslow.buy.show import memory_words, money_words, render_choose, render_cost, render_devices, render_tiers
from unslow.buy.tiers import tiers
from unslow.commands.choose import ChooseRequest
from unslow.commands.cost import CostRequest
from unslow.commands.devices import DevicesRequest
from unslow.commands.tiers import TiersRequest
from unslow.facts.errors import UserError
from unslow.show.console import Column, TextConsole, item, table_of

DEVICES = devices(
    MarketDay(), DevicesRequest(names=("RTX 3090", "2x RTX 3090", "Strix Halo", "M4 16GB"), model="llama-3.3-70b")
)
PLAIN = devices(MarketDay(), DevicesRequest(names=("RTX 3090", "Strix Halo")))
FEW = ("RTX 3090", "RTX 4090", "RTX 3060")
CHOSEN = choose(
    MarketDay(), ChooseRequest(model="qwen3-32b", quant="Q4_K_M", budget=2000, goal=20, among=FEW, have="RTX 3060")
)
NOTHING = choose(
    MarketDay(), ChooseRequest(model="llama-3.3-70b", quant="Q4_K_M", budget=700, goal=20, among=FEW, users=2)
)
COST = cost(
    MarketDay(),
    CostRequest(model="llama-3.3-70b", device=("2x RTX 3090", "H200 NVL"), tokens_per_day=2e5, rent=("H100=2",)),
)
TIERS = tiers(MarketDay(), TiersRequest(memory=(8 * 2**30,), rows=1))
ANSWERS: dict[str, tuple[Callable[..., str], Any]] = {
    "devices": (render_devices, DEVICES), "plain": (render_devices, PLAIN), "chosen": (render_choose, CHOSEN),
    "nothing": (render_choose, NOTHING), "cost": (render_cost, COST), "tiers": (render_tiers, TIERS),
}  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ANSWERS)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    render, report = ANSWERS[name]
    lines = render(report, "terminal", width=width, color=False).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) > 4


@pytest.mark.parametrize("name", ANSWERS)
def test_json_output_names_its_schema(name: str) -> None:
    render, report = ANSWERS[name]
    assert json.loads(render(report, "json", width=80, color=False))["schema"] == report.schema


def test_devices_in_80_columns_keep_speed_interval_and_price(wording) -> None:
    text = render_devices(DEVICES, "terminal", width=80, color=False)
    row = next(line for line in text.splitlines() if line.startswith("2x RTX 3090"))
    assert "whole" in row
    assert "1,400 used*" in row
    assert "-" in row.split("whole")[1]
    assert "42 layers" in text
    assert "M4 16GB" in text
    wording(text, about="6 months")


def test_a_choice_shows_reasons_and_runners_up(wording) -> None:
    text = render_choose(CHOSEN, "terminal", width=100, color=False)
    assert "→  RTX 3090" in text
    wording(text, about="tok/s at the low end")
    wording(text, about="RTX 3060")
    assert "Ruled out" in text


def test_no_choice_shows_alternatives(wording) -> None:
    text = render_choose(NOTHING, "terminal", width=100, color=False)
    wording(text, tells=("NOTHING", "2 concurrent requests"))
    bare = ChoiceReport(
        unslow_version="0", asked=NOTHING.asked, budget=None, currency="USD", goal_tokens_per_s=None
    )  # fmt: skip
    wording(render_choose(bare, "terminal", width=80, color=False))


def test_cost_report_shows_break_even_and_missing_prices(wording) -> None:
    text = render_cost(COST, "terminal", width=120, color=False)
    wording(text, about="--price")
    wording(text, about="API DeepInfra,")


def test_table_drops_spare_columns_before_cutting_names() -> None:
    columns = (Column("NAME", right=False), Column("A"), Column("B", spare=1))
    console = TextConsole(width=40, color=False)
    console.print(table_of(columns, [("a" * 30, "12345", "12345678901234567890")], 40))
    assert console.text.splitlines()[-1] == "a" * 30 + "  12345"
    console = TextConsole(width=40, color=False)
    console.print(table_of(columns, [("a" * 50, "12345", "1234567")], 40))
    assert console.text.splitlines()[-1] == "a" * 23 + "…  12345  1234567"


def test_short_names_leave_width_to_other_columns() -> None:
    columns = (Column("N", right=False), Column("PRICE", right=False))
    console = TextConsole(width=40, color=False)
    console.print(table_of(columns, [("abc", "1" * 34)], 40))
    assert console.text.splitlines()[-1] == "abc  " + "1" * 34


def test_wrapped_list_items_are_indented() -> None:
    console = TextConsole(width=40, color=False)
    console.print(item("word " * 10))
    assert [len(line) - len(line.lstrip(" ·")) for line in console.text.splitlines()] == [4, 4]


def test_amounts_are_rounded_by_magnitude() -> None:
    assert [money_words(amount) for amount in (None, 0.0, 0.625, 12.34, 1999.5)] == ["?", "0", "0.62", "12.3", "2,000"]
    assert [memory_words(size) for size in (None, int(23.54 * 2**30), 128 * 2**30)] == ["?", "23.5", "128"]


def test_another_format_is_refused() -> None:
    with pytest.raises(UserError):
        render_devices.check_format("html")
