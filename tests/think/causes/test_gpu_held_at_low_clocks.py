from answers import ask
from cases import with_facts, without
from made_up_telemetry import sampled, stat
from under_load import at_work, saying

from unslow.facts.account import Topic
from unslow.facts.values import not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "gpu_held_at_low_clocks"


def fires():
    return at_work(20.0, clock_hz=4e8, power_max_w=80.0, temperature_max_c=45.0)


def test_busy_cool_gpu_at_low_clocks_is_found(wording):
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="16%")
    assert finding.speedup > 3


def test_low_clocks_of_a_starved_gpu_are_ruled_out(wording):
    answer = ask(NAME, at_work(20.0, clock_hz=4e8, busy=0.1))
    assert isinstance(answer, Absent)
    wording(answer.because, tells="10%")


def test_thermal_reason_or_high_power_is_ruled_out():
    assert isinstance(ask(NAME, at_work(20.0, clock_hz=4e8, event_reasons=["sw_thermal_slowdown"])), Absent)
    assert isinstance(ask(NAME, at_work(20.0, clock_hz=4e8, power_max_w=440.0)), Absent)


def test_full_clocks_are_ruled_out():
    assert isinstance(ask(NAME, at_work(20.0, clock_hz=2.4e9)), Absent)


def test_idle_memory_clock_in_a_current_reading_is_found():
    now = {"busy": 0.99, "clock_hz": 2.4e9, "memory_clock_hz": 4e8, "memory_clock_max_hz": 1e10, "event_reasons": []}
    now |= {"power_w": 80.0}
    case = without(at_work(20.0, now=now), "run.gpus")
    assert isinstance(ask(NAME, with_facts(case, {"machine.gpus.0.performance_state": "P8"})), Found)


def test_told_low_clocks_are_only_suspected():
    """A GPU that the runtime does not use shows the same."""
    answer = ask(NAME, saying(Topic.GPU_CLOCK_LOW, "GPU 1890 MHz / 16 W instead of 2625 MHz / 47 W", slow="decode"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_hot_gpu_without_a_thermal_reason_is_ruled_out():
    hot = at_work(20.0, clock_hz=4e8, power_max_w=80.0, temperature_max_c=88.0)
    assert isinstance(ask(NAME, hot), Absent)


def test_idle_memory_clock_during_decode_is_found(wording):
    case = at_work(20.0, now={"memory_clock_max_hz": 1e10}, clock_hz=2.4e9, power_max_w=80.0)
    assert isinstance(ask(NAME, case), Absent)
    held = with_facts(case, {"run.telemetry": sampled({"memory_clock_hz": stat(8e8)})})
    answer = ask(NAME, held)
    assert isinstance(answer, Found)
    wording(answer.because, tells="8%")


def test_unknown_power_and_temperature_give_cannot_tell():
    answer = ask(NAME, at_work(20.0, clock_hz=4e8))
    assert isinstance(answer, CannotTell)
    assert "nvidia-smi" in answer.how_to_get


def test_power_and_temperature_decide_where_the_driver_names_no_reasons():
    silent = with_facts(fires(), {"run.gpus.0.event_reasons": not_found("amdgpu names none")})
    assert isinstance(ask(NAME, silent), Found)
    unread = with_facts(silent, {"run.gpus.0.temperature_max_c": not_found("not read")})
    assert isinstance(ask(NAME, unread), CannotTell)
