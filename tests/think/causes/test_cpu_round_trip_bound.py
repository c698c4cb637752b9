from answers import ask
from cases import with_facts
from under_load import at_work

from unslow.facts.runtime import Buffer
from unslow.facts.values import MIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent
from unslow.think.judge.judge import judge

NAME = "cpu_round_trip_bound"
TINY = {
    "parameters": 135_000_000, "weights_bytes": 140 * MIB, "layers": 30, "width": 576, "heads": 9, "kv_heads": 3,
    "key_length": 64, "value_length": 64, "vocabulary": 49_152, "token_table_bytes": 20 * MIB, "output_bytes": 20 * MIB,
}  # fmt: skip


def fires(busy: float = 0.15, own: float = 1.0, speed: float = 90.0):
    case = at_work(speed, busy=busy, clock_hz=2.4e9)
    case = with_facts(case, {f"model.{name}": value for name, value in TINY.items()})
    buffers = [Buffer(device="CUDA0", kind="model", bytes=140 * MIB, on_gpu=True)]
    return with_facts(case, {"run.own_cpus": own, "runtime.memory.buffers": buffers})


def test_tiny_model_with_idle_gpu_and_busy_core_is_found():
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    assert "idle 85%" in finding.because
    assert {f.knob for f in finding.fixes} == {"parallel", "speculative"}


def test_large_model_near_its_bandwidth_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(at_work(60.0, busy=0.2), {"run.own_cpus": 1.0})), Absent)


def test_busy_gpu_or_idle_host_is_ruled_out():
    assert isinstance(ask(NAME, fires(busy=0.9)), Absent)
    assert isinstance(ask(NAME, fires(own=0.1)), Absent)


def test_tiny_model_at_expected_speed_is_ruled_out():
    assert isinstance(ask(NAME, fires(speed=600.0)), Absent)
