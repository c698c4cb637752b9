"""Buyer answers as HTML: complete, escaped, with missing values marked."""

import ast
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from unslow.buy.cost import BreakEvenShown, CostReport, UseShown, WayShown
from unslow.buy.offers import ChoiceReport, OfferShown, RefusedShown
from unslow.buy.offers import WayShown as WayOut
from unslow.buy.report import AskedShown, DevicesReport, PriceShown, RigShown, SpeedShown
from unslow.buy.tiers import MissesShown, RunsShown, TierShown, TiersReport
from unslow.page.server import buyer_answers as answers
from unslow.page.server.endpoints import CHOOSE, COST, DEVICES, TIERS
from unslow.think.speed.report import RateShown

GIB = 1024**3
SOURCE = Path(answers.__file__).parents[2]
HOSTILE = "<script>alert('1')</script>\"&"
RATE = RateShown(low=90.0, mid=104.0, high=124.0)
EACH = RateShown(low=45.0, mid=52.0, high=62.0)
SPEED = SpeedShown(decode_tokens_per_s=RATE, each_tokens_per_s=EACH, prefill_tokens_per_s=RATE, first_token_s=RATE)
ASKED = AskedShown(
    model=HOSTILE,
    quant="Q4_K_M",
    parameters=8_000_000_000,
    weights_bytes=5 * GIB,
    context=8192,
    users=2,
    prompt_tokens=512,
)
PRICE = PriceShown(amount=1599.0, currency="USD", kind="launch", date="2022", source=HOSTILE, old=True)


def rig(**more):
    known = {
        "name": HOSTILE,
        "device": "RTX 4090",
        "vendor": "NVIDIA",
        "kind": "gpu",
        "year": 2022,
        "memory_bytes": 24 * GIB,
        "bytes_per_s": 1e12,
        "tdp_w": 450.0,
        "price": PRICE,
        "quant": "Q6_K",
        "fits": "whole",
        "speed": SPEED,
        "price_per_token_per_s": 15.4,
    }
    return RigShown(**known | more)


def devices():
    bare = rig(name="none", price=None, speed=None, fits="no", reason="too small", memory_bytes=None, tdp_w=None)
    return answers.devices(DevicesReport(unslow_version="0", asked=ASKED, devices=(rig(), bare), notes=(HOSTILE,)))


def choice(*, found):
    offer = OfferShown(rig=rig(), total=1599.0, reasons=(HOSTILE,))
    refused = RefusedShown(why="too_dear", words="cost more than the budget", count=31, nearest=(offer,))
    return answers.choose(
        ChoiceReport(
            unslow_version="0",
            asked=ASKED,
            budget=1600.0,
            currency="USD",
            goal_tokens_per_s=20.0,
            chosen=offer if found else None,
            runners_up=(OfferShown(rig=rig(), total=None),) if found else (),
            refused=(refused,),
            ways=() if found else (WayOut(gives="budget", words="400 USD more"),),
        )
    )


def cost():
    ways = (
        WayShown(how="own", name=HOSTILE, price=PRICE, per_million=1.8, per_month=54.7, busy_share=0.11, enough=True),
        WayShown(how="api", name="some API", enough=None, reason="no price is known"),
    )
    use = UseShown(tokens_per_day=1e6, prompt_tokens_per_day=3e6, prompt_ratio=3.0, said="tokens_per_day")
    even = tuple(BreakEvenShown(own="A", against="B", months=months) for months in (None, 7.9, 136.0))
    return answers.cost(
        CostReport(
            unslow_version="0",
            asked=ASKED,
            use=use,
            currency="USD",
            electricity_per_kwh=0.3,
            years=3.0,
            ways=ways,
            break_even=even,
        )
    )


def tiers():
    runs = RunsShown(
        model=HOSTILE,
        parameters=8_000_000_000,
        is_sparse=True,
        quant="Q6_K",
        weights_bytes=6 * GIB,
        most_context=20480,
        tokens_per_s=RATE,
        alike=2,
    )
    misses = MissesShown(model="larger", parameters=1, quant="Q4_K_M", lacks_bytes=GIB, would_fit="a shorter context")
    full = TierShown(
        memory_bytes=8 * GIB, unified=True, device="X", devices=3, bytes_per_s=1e11, runs=(runs,), misses=(misses,)
    )
    empty = TierShown(memory_bytes=GIB, unified=False, device="", devices=0, bytes_per_s=None)
    return answers.tiers(
        TiersReport(unslow_version="0", context=8192, quant_least="Q4_K_M", models=212, tiers=(full, empty))
    )


ALL = {
    "devices": devices,
    "choice": lambda: choice(found=True),
    "no choice": lambda: choice(found=False),
    "cost": cost,
    "tiers": tiers,
}


@pytest.mark.parametrize("name", ALL)
def test_buyer_answers_are_well_formed_and_escaped(name):
    html = str(ALL[name]())
    ET.fromstring(f"<div>{html}</div>")
    assert "<script" not in html
    assert "style=" not in html
    assert html.count("<th scope") >= 1 or name == "no choice"


def test_devices_table_marks_unknown_values(wording):
    facts = ("✓", "✗", "too small", "90.0", "124", "1,599 USD", "2022", "24.0 GiB")
    wording(re.findall(">([^<]+)<", devices()), tells=facts)


def test_choice_shows_its_price_or_what_would_make_one_possible(wording):
    wording(re.findall(">([^<]+)<", choice(found=True)), tells="1,599 USD")
    wording(re.findall(">([^<]+)<", choice(found=False)), tells=("31", "400 USD"))


def test_command_line_flags_become_form_field_names():
    assert answers.by_field('give yours with --price "RTX 3090=AMOUNT"') == "give yours with “Price”: RTX 3090=AMOUNT"
    assert answers.by_field("it is then worth nothing (--resale), --host-price adds one") == (
        "it is then worth nothing (“Resale”), “Host price” adds one"
    )
    assert answers.by_field("`unslow devices --model` shows how fast") == "`unslow devices --model` shows how fast"


@pytest.mark.parametrize("module", ["choose", "cost", "offers", "tiers"])
def test_every_flag_in_a_buyer_text_is_a_form_field(module):
    text = "\n".join(
        node.value
        for node in ast.walk(ast.parse((SOURCE / "buy" / f"{module}.py").read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    fields = {parameter.name.replace("_", " ").capitalize() for parameter in (*DEVICES, *CHOOSE, *COST, *TIERS)}
    assert set(re.findall("“([^”]+)”", answers.by_field(text))) <= fields


def test_choice_shows_speed_per_user_and_quant():
    html = choice(found=True)
    assert "<td>Q6_K</td>" in html
    assert "45.0 to 62.0" in html


def test_break_even_is_in_months_years_or_never(wording):
    wording(re.findall(">([^<]+)<", cost()), tells=("7.9 months", "11.3 years", "11%"))


def test_tier_lists_what_runs_and_what_narrowly_does_not_fit(wording):
    wording(re.findall(">([^<]+)<", tiers()), tells=("8.0 GiB", "8.00B", " 2 ", "1.0 GiB"))
