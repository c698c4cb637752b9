import pytest
from answers import ask
from cases import gpu_case, r, with_facts, without
from engines import vllm
from made_up_telemetry import sampled, stat
from under_load import at_work, saying

from unslow.facts.account import Topic
from unslow.facts.run import GpuUnderLoad
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "gpu_thermal_throttling"


def fires():
    return at_work(60.0, event_reasons=["sw_thermal_slowdown"], temperature_max_c=89.0)


def test_clocks_at_half_and_a_thermal_reason():
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    assert "89 °C" in finding.because
    assert "48% of its clocks" in finding.because
    assert finding.speedup > 1.5


def test_near_miss_a_hot_reading_without_a_reason_is_no_throttling():
    assert isinstance(ask(NAME, at_work(60.0, temperature_max_c=89.0)), Absent)


def test_near_miss_low_clocks_on_a_starved_gpu_have_no_thermal_reason():
    assert isinstance(ask(NAME, at_work(20.0, busy=0.1, clock_hz=4e8, event_reasons=["gpu_idle"])), Absent)


def test_not_where_the_speed_does_not_suffer():
    answer = ask(NAME, at_work(130.0, event_reasons=["sw_thermal_slowdown"]))
    assert isinstance(answer, Absent)


def test_not_where_the_clocks_explain_next_to_nothing_of_the_loss():
    assert isinstance(ask(NAME, at_work(5.0, event_reasons=["hw_thermal_slowdown"], clock_hz=2.2e9)), Absent)


@pytest.mark.parametrize(("temperature", "kind"), [(91.0, Found), (50.0, Absent)])
def test_a_slowdown_of_the_hardware_is_one_of_heat_where_it_is_hot(temperature, kind):
    case = at_work(60.0, event_reasons=["hw_slowdown"], temperature_max_c=temperature)
    assert isinstance(ask(NAME, case), kind)


def test_a_busy_reading_of_now_counts_where_nothing_was_sampled():
    now = {"busy": 0.98, "clock_hz": 1.1e9, "event_reasons": ["hw_thermal_slowdown"]}
    case = without(at_work(60.0, now=now), "run.gpus")
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"machine.gpus.0.busy": 0.0})), CannotTell)


def test_thermal_pressure_of_a_mac():
    case = with_facts(saying(slow="decode", case=gpu_case()), {"machine.cpu.thermal_pressure": "Heavy"})
    case = with_facts(without(case, "model.weights_bytes"), {"run.decode_tokens_per_s": 3.0})
    assert isinstance(ask(NAME, case), Found)
    assert not isinstance(ask(NAME, with_facts(case, {"machine.cpu.thermal_pressure": "Nominal"})), Found)


def test_the_drivers_own_words_read_out_by_somebody_decide():
    case = saying(Topic.THROTTLED, "HW Thermal Slowdown: Active", slow="decode")
    assert isinstance(ask(NAME, case), Found)
    denial = saying(Topic.THROTTLED, "SW Thermal Slowdown: Not Active", slow="decode")
    assert isinstance(ask(NAME, denial), CannotTell)


def test_somebody_who_says_so_is_a_suspicion():
    answer = ask(NAME, saying(Topic.THROTTLED, "I think it is throttling", slow="decode"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "nvidia-smi" in answer.how_to_get


def test_near_miss_a_gpu_that_waits_for_the_cpu_is_not_slowed_by_its_clocks():
    starved = at_work(20.0, busy=0.1, clock_hz=4e8, event_reasons=["sw_thermal_slowdown"])
    answer = ask(NAME, starved)
    assert isinstance(answer, Absent)
    assert "consequence" in answer.because


def test_clocks_and_speed_that_fall_together_are_told(wording):
    clocks = sampled({"clock_hz": stat(1.2e9, high=2.4e9, last=1.0e9)})
    falling = with_facts(fires(), {"run.telemetry": clocks, "run.decode_decay": 0.6})
    answer = ask(NAME, falling)
    wording(answer.because)
    assert len(answer.evidence) == 4
    steady = with_facts(fires(), {"run.telemetry": sampled({"clock_hz": stat(1.2e9)})})
    assert "fall" not in ask(NAME, steady).because


def test_of_several_gpus_the_hot_one_is_named(wording):
    under = tuple(
        GpuUnderLoad(
            index=i, samples=9, busy=r(0.9), clock_hz=r(0.4e9 if i else 2.5e9),
            temperature_max_c=r(90.0 if i else 60.0), event_reasons=r(["hw_thermal_slowdown"] if i else []),
        )
        for i in (0, 1)
    )  # fmt: skip
    clocks = {f"machine.gpus.{i}.clock_max_hz": 2.5e9 for i in (0, 1)}
    answer = ask(NAME, vllm(**clocks, **{"run.gpus": r(under), "run.decode_tokens_per_s": 20.0}))
    assert isinstance(answer, Found)
    wording(answer.because, tells="16%")
