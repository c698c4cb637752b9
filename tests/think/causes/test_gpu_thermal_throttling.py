import pytest
from answers import ask
from cases import gpu_case, r, with_facts, without
from engines import vllm
from made_up_telemetry import sampled, stat
from under_load import at_work, saying

from unslow.facts.account import Topic
from unslow.facts.run import GpuUnderLoad
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "gpu_thermal_throttling"


def fires():
    return at_work(60.0, event_reasons=["sw_thermal_slowdown"], temperature_max_c=89.0)


def test_half_clocks_with_a_thermal_reason_are_found(wording):
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells=("89 °C", "48%"))
    assert finding.speedup > 1.5


def test_hot_gpu_without_a_thermal_reason_is_ruled_out():
    assert isinstance(ask(NAME, at_work(60.0, temperature_max_c=89.0)), Absent)


def test_idle_reason_with_low_clocks_is_ruled_out():
    assert isinstance(ask(NAME, at_work(20.0, busy=0.1, clock_hz=4e8, event_reasons=["gpu_idle"])), Absent)


def test_thermal_reason_at_expected_speed_is_ruled_out():
    answer = ask(NAME, at_work(130.0, event_reasons=["sw_thermal_slowdown"]))
    assert isinstance(answer, Absent)


def test_clocks_that_do_not_explain_the_loss_are_ruled_out():
    assert isinstance(ask(NAME, at_work(5.0, event_reasons=["hw_thermal_slowdown"], clock_hz=2.2e9)), Absent)


@pytest.mark.parametrize(("temperature", "kind"), [(91.0, Found), (50.0, Absent)])
def test_hardware_slowdown_is_thermal_only_where_it_is_hot(temperature, kind):
    case = at_work(60.0, event_reasons=["hw_slowdown"], temperature_max_c=temperature)
    assert isinstance(ask(NAME, case), kind)


def test_current_reading_of_a_busy_gpu_counts_without_samples():
    now = {"busy": 0.98, "clock_hz": 1.1e9, "event_reasons": ["hw_thermal_slowdown"]}
    case = without(at_work(60.0, now=now), "run.gpus")
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"machine.gpus.0.busy": 0.0})), CannotTell)


def test_heavy_thermal_pressure_of_a_mac_is_found():
    case = with_facts(saying(slow="decode", case=gpu_case()), {"machine.cpu.thermal_pressure": "Heavy"})
    case = with_facts(without(case, "model.weights_bytes"), {"run.decode_tokens_per_s": 3.0})
    assert isinstance(ask(NAME, case), Found)
    assert not isinstance(ask(NAME, with_facts(case, {"machine.cpu.thermal_pressure": "Nominal"})), Found)


def test_told_active_thermal_slowdown_is_found():
    case = saying(Topic.THROTTLED, "HW Thermal Slowdown: Active", slow="decode")
    assert isinstance(ask(NAME, case), Found)
    denial = saying(Topic.THROTTLED, "SW Thermal Slowdown: Not Active", slow="decode")
    assert isinstance(ask(NAME, denial), CannotTell)


def test_told_opinion_of_throttling_is_only_suspected():
    answer = ask(NAME, saying(Topic.THROTTLED, "I think it is throttling", slow="decode"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "nvidia-smi" in answer.how_to_get


def test_thermal_reason_on_a_starved_gpu_is_ruled_out(wording):
    starved = at_work(20.0, busy=0.1, clock_hz=4e8, event_reasons=["sw_thermal_slowdown"])
    answer = ask(NAME, starved)
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_clocks_and_speed_that_fall_together_are_cited(wording):
    clocks = sampled({"clock_hz": stat(1.2e9, high=2.4e9, last=1.0e9)})
    falling = with_facts(fires(), {"run.telemetry": clocks, "run.decode_decay": 0.6})
    answer = ask(NAME, falling)
    wording(answer.because)
    assert len(answer.evidence) == 4
    steady = with_facts(fires(), {"run.telemetry": sampled({"clock_hz": stat(1.2e9)})})
    wording(ask(NAME, steady).because)


def test_hot_gpu_of_several_is_named(wording):
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
