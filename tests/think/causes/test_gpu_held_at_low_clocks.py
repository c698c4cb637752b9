from answers import ask
from cases import with_facts, without
from made_up_telemetry import sampled, stat
from under_load import at_work, saying

from unslow.facts.account import Topic
from unslow.facts.values import not_found
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "gpu_held_at_low_clocks"


def fires():
    return at_work(20.0, clock_hz=4e8, power_max_w=80.0, temperature_max_c=45.0)


def test_busy_cool_and_slow():
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    assert "16% of its clocks" in finding.because
    assert finding.speedup > 3


def test_near_miss_a_starved_gpu_is_a_symptom():
    answer = ask(NAME, at_work(20.0, clock_hz=4e8, busy=0.1))
    assert isinstance(answer, Absent)
    assert "waits" in answer.because


def test_heat_and_power_are_other_causes():
    assert isinstance(ask(NAME, at_work(20.0, clock_hz=4e8, event_reasons=["sw_thermal_slowdown"])), Absent)
    assert isinstance(ask(NAME, at_work(20.0, clock_hz=4e8, power_max_w=440.0)), Absent)


def test_full_clocks():
    assert isinstance(ask(NAME, at_work(20.0, clock_hz=2.4e9)), Absent)


def test_memory_at_an_idle_clock_in_a_reading_of_now():
    now = {"busy": 0.99, "clock_hz": 2.4e9, "memory_clock_hz": 4e8, "memory_clock_max_hz": 1e10, "event_reasons": []}
    now |= {"power_w": 80.0}
    case = without(at_work(20.0, now=now), "run.gpus")
    assert isinstance(ask(NAME, with_facts(case, {"machine.gpus.0.performance_state": "P8"})), Found)


def test_clocks_that_somebody_saw_low_are_a_suspicion_only():
    """A GPU that the runtime does not use shows the same."""
    answer = ask(NAME, saying(Topic.GPU_CLOCK_LOW, "GPU 1890 MHz / 16 W instead of 2625 MHz / 47 W", slow="decode"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_near_miss_heat_without_a_reason_bit():
    hot = at_work(20.0, clock_hz=4e8, power_max_w=80.0, temperature_max_c=88.0)
    assert isinstance(ask(NAME, hot), Absent)


def test_memory_that_stays_at_its_idle_clock_while_it_generates(wording):
    case = at_work(20.0, now={"memory_clock_max_hz": 1e10}, clock_hz=2.4e9, power_max_w=80.0)
    assert isinstance(ask(NAME, case), Absent)
    held = with_facts(case, {"run.telemetry": sampled({"memory_clock_hz": stat(8e8)})})
    answer = ask(NAME, held)
    assert isinstance(answer, Found)
    wording(answer.because, tells="8%")


def test_without_power_and_temperature_it_can_not_tell():
    answer = ask(NAME, at_work(20.0, clock_hz=4e8))
    assert isinstance(answer, CannotTell)
    assert "nvidia-smi" in answer.how_to_get


def test_a_driver_that_names_no_reasons_still_tells_power_and_temperature():
    silent = with_facts(fires(), {"run.gpus.0.event_reasons": not_found("amdgpu names none")})
    assert isinstance(ask(NAME, silent), Found)
    unread = with_facts(silent, {"run.gpus.0.temperature_max_c": not_found("not read")})
    assert isinstance(ask(NAME, unread), CannotTell)
