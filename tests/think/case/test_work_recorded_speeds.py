"""Predicted against measured speed on every recorded machine: with its settings, and after the cure."""

import statistics
from pathlib import Path

import pytest

from unslow.commands.diagnose.target import read_stored
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.cure import EVERYTHING, Cure
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.judge.pricing import UNEXPLAINED, decode_budget

MACHINES = Path(__file__).parents[2] / "machines"
NOT_OF_THE_SETTINGS = ("gpu_shared", "cpu_busy")
"""Slow because of others, which the budget shows by itself or which nobody counted."""
RESTLESS = ("gpu_layers_set_too_low", "spill_other_process", "seen_spilled")
"""Recorded on a host whose CPU was slower from request to request (81, 97 and 124 ms a token): in the last its threads
waited for a processor most of the time, with nothing to tell for whom."""


def case_of(name: str) -> Case:
    return next(read_stored(str(MACHINES / name)).cases())


def measured() -> dict[str, tuple[Case, float]]:
    """Every machine with a speed, and the speed."""
    found = {}
    for folder in sorted(MACHINES.glob("h200_*")):
        case = case_of(folder.name)
        rate = CaseView(case).speed.measured_rate
        if isinstance(rate, Known):
            found[folder.name] = case, rate.value
    return found


def predicted(case: Case, cure: Cure | None = None) -> float:
    found = CaseView(case).speed.predict(cure)
    assert isinstance(found, Prediction)
    return found.tokens_per_s.mid


@pytest.mark.no_cover  # the machines are judged elsewhere
def test_predicted_speeds_agree_with_recorded_machines():
    """Half of the machines within 10%, none beyond 33% except where other processes used the CPU or the GPU.

    That CPU reached 11.6 to 15.1 tok/s with the same settings.
    """
    off = {name: predicted(case) / rate - 1 for name, (case, rate) in measured().items()}
    plain = {n: o for n, o in off.items() if not any(w in n for w in (*NOT_OF_THE_SETTINGS, *RESTLESS))}
    assert statistics.median(map(abs, plain.values())) < 0.10
    assert {n: o for n, o in plain.items() if abs(o) > 0.33} == {}


@pytest.mark.no_cover  # the machines are judged elsewhere
def test_little_time_is_unexplained_on_recorded_machines():
    left = []
    for case, rate in measured().values():
        found = CaseView(case).speed.predict()
        parts = decode_budget(CaseView(case), found if isinstance(found, Prediction) else None, 1 / rate, {})
        left.append(sum(p.seconds for p in parts if p.part == UNEXPLAINED) * rate)
    assert statistics.median(left) < 0.05


@pytest.mark.no_cover  # the machines are judged elsewhere
@pytest.mark.parametrize(
    ("faulty", "cure", "healthy"),
    [
        ("llama_server_kv_on_host", Cure(kv_on_gpu=True), "llama_server_healthy_8b"),
        ("llama_server_ngl_28", EVERYTHING, "llama_server_healthy_8b"),
        ("llama_server_ngl_0", EVERYTHING, "llama_server_healthy_8b"),
        ("llama_server_context_pinned_spill", EVERYTHING, "llama_server_healthy_8b"),
        ("llama_server_spill_stranger_4gib", EVERYTHING, "llama_server_healthy_8b"),
        ("llama_server_parallel_slots", EVERYTHING, "llama_server_healthy_8b"),
        ("llama_server_cuda_hidden", EVERYTHING, "llama_server_healthy_8b"),
        ("llama_server_moe_experts_on_cpu", Cure(experts_on_gpu=True), "llama_server_healthy_moe"),
        ("llama_server_moe_spill_stranger", EVERYTHING, "llama_server_healthy_moe"),
        ("llama_server_ngl_12_threads_64", Cure(threads=16), "llama_server_context_pinned_spill"),
        ("llama_server_cuda_hidden_threads_64", Cure(threads=16), "llama_server_cuda_hidden"),
        ("llama_server_cuda_hidden_threads_8", Cure(threads=16), "llama_server_cuda_hidden"),
        ("transformers_8b_eager", Cure(graphs=True), "transformers_8b_static"),
        ("live_stranger_holds_vram", EVERYTHING, "live_healthy"),
    ],
)
def test_cured_prediction_matches_the_healthy_machine(faulty, cure, healthy):
    after = CaseView(case_of(f"h200_{healthy}")).speed.measured_rate
    assert predicted(case_of(f"h200_{faulty}"), cure) == pytest.approx(after.value, rel=0.25)


@pytest.mark.parametrize(("name", "rate"), [("healthy_8b", 8847), ("kv_on_host", 3735)])
def test_prefill_agrees_with_recorded_benchmarks(name, rate):
    """2000 tokens on the same card: `tests/benches/h200_slope.json` and `h200_kv_on_host.json`."""
    found = CaseView(case_of(f"h200_llama_server_{name}")).speed.predict_prefill()
    assert found.tokens_per_s.mid == pytest.approx(rate, rel=0.35)
    assert found.tokens_per_s.low < rate < found.tokens_per_s.high
