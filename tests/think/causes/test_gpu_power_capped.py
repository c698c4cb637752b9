import pytest
from answers import ask
from cases import gpu_case, with_facts, without
from under_load import at_work, tried

from unslow.facts.account import Topic
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "gpu_power_capped"
LOW_LIMIT = {"power_limit_w": 150.0}


def fires():
    return at_work(55.0, now=LOW_LIMIT, event_reasons=["sw_power_cap"], power_max_w=149.0)


def test_low_power_limit_is_found_with_the_default_as_fix(wording):
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells=("150 W", "450 W"))
    assert finding.fixes[0].value == 450.0
    assert finding.speedup > 1.5


def test_power_cap_at_full_speed_is_ruled_out():
    assert isinstance(ask(NAME, at_work(130.0, event_reasons=["sw_power_cap"], power_max_w=449.0)), Absent)


def test_power_cap_at_high_clocks_is_ruled_out():
    case = at_work(40.0, event_reasons=["sw_power_cap"], power_max_w=449.0, clock_hz=2.2e9)
    assert isinstance(ask(NAME, case), Absent)


def test_power_reason_far_below_the_limit_is_ruled_out():
    assert isinstance(ask(NAME, at_work(55.0, event_reasons=["sw_power_cap"], power_max_w=90.0)), Absent)


def test_power_brake_is_found_below_the_limit():
    case = at_work(55.0, event_reasons=["hw_power_brake_slowdown"], power_max_w=90.0)
    assert isinstance(ask(NAME, case), Found)


def test_trial_with_more_power_is_found_but_not_with_other_clocks():
    text = "100 W: 31 tok/s, 350 W: 68 tok/s"
    answer = ask(NAME, tried(31.0, 68.0, Topic.CLOCKS, case=gpu_case(), text=text))
    assert isinstance(answer, Found)
    assert answer.speedup == 68.0 / 31.0
    other = ask(NAME, tried(31.0, 68.0, Topic.CLOCKS, case=gpu_case(), text="600 MHz 31, 1800 MHz 68"))
    assert not isinstance(other, Found)


def test_unknown_readings_under_load_give_cannot_tell():
    answer = ask(NAME, without(at_work(55.0), "run.gpus"))
    assert isinstance(answer, CannotTell)


@pytest.mark.parametrize("path", ["run.gpus.0.power_max_w", "machine.gpus.0.power_limit_w", "run.gpus.0.clock_hz"])
def test_missing_power_limit_or_clock_gives_cannot_tell(path):
    answer = ask(NAME, without(fires(), path))
    assert isinstance(answer, CannotTell)
    assert "POWER" in answer.how_to_get or answer.how_to_get == "ask the test"


def test_power_cap_of_a_starved_gpu_is_ruled_out():
    case = at_work(20.0, now=LOW_LIMIT, busy=0.1, event_reasons=["sw_power_cap"], power_max_w=149.0)
    assert isinstance(ask(NAME, case), Absent)


def test_fix_of_a_laptop_is_mains_power_not_a_limit(wording):
    slow = at_work(20.0, now=LOW_LIMIT, event_reasons=["sw_power_cap"], power_max_w=149.0)
    answer = ask(NAME, with_facts(slow, {"machine.gpus.0.name": "NVIDIA GeForce RTX 4090 Laptop GPU"}))
    assert isinstance(answer, Found)
    change = answer.remedies[0].change
    assert change.value is None
    wording(change.why, tells="laptop")
