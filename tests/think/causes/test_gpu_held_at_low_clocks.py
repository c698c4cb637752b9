from answers import ask
from cases import with_facts, without
from under_load import at_work, saying

from unslow.facts.account import Topic
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "gpu_held_at_low_clocks"


def fires():
    return at_work(20.0, clock_hz=4e8, power_max_w=80.0, temperature_max_c=45.0)


def test_busy_cool_and_slow():
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    assert "16% of its clocks" in finding.because
    assert finding.speedup > 3


def test_a_starved_gpu_is_a_symptom():
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
    case = without(at_work(20.0, now=now), "run.gpus")
    assert isinstance(ask(NAME, with_facts(case, {"machine.gpus.0.performance_state": "P8"})), Found)


def test_clocks_that_somebody_saw_low_are_a_suspicion_only():
    """A GPU that the runtime does not use shows the same."""
    answer = ask(NAME, saying(Topic.GPU_CLOCK_LOW, "GPU 1890 MHz / 16 W instead of 2625 MHz / 47 W", slow="decode"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
