"""Every cause that a Prometheus can show: it is named for that fault, and not for what only looks like it."""

from typing import Any

import msgspec
import pytest
from fleet_members import CACHE_OF_TWO, RTX_4090, gpu, llama_cpp, member

from unslow.fleet.member import Member
from unslow.fleet.snapshots import snapshot_of
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.report import SubjectReport

SLOW = {"token_gap_s": 0.022}
"""Three times as long for a token as it should take."""
HOT = {"clock_hz": 0.75e9, "thermal_throttled": 0.8, "temperature_c": 88.0, "temperature_max_c": 91.0}
CAPPED = {"clock_hz": 0.75e9, "power_throttled": 0.9, "power_w": 298.0, "power_max_w": 300.0, "power_limit_w": 300.0}
SWAP = {
    "swap_used_bytes": 20e9, "swap_total_bytes": 64e9, "memory_pressure": 0.4, "memory_available_bytes": 4e9,
}  # fmt: skip
CROWDED = {"running": 60.0, "running_spread": 5.0, "token_gap_s": 0.017}
QUEUED = {"queue_s": 4.0, "first_token_s": 4.3, "waiting": 44.0}
"""As many wait as ask in 4 s, where 60 run and each takes 320 tokens of 17 ms."""


def report(one: Member) -> SubjectReport:
    return judge(CaseView(next(snapshot_of(one).cases())))


def tensor_parallel(second: dict[str, float], **engine: Any) -> Member:
    return member(gpu(0), gpu(1, **second), about={"info": CACHE_OF_TWO}, **engine)


def updated(**engine: Any) -> Member:
    return member(about={"version_before": "0.10.2"}, token_gap_before_s=0.007, **engine)


def on_a_4090(model: str, used: float, speed: float) -> Member:
    card = gpu(
        name=RTX_4090, vram_total_bytes=25.7e9, vram_used_bytes=used, vram_used_max_bytes=used,
        vram_free_bytes=25.7e9 - used, clock_max_hz=2.8e9, clock_hz=2.6e9, busy=0.4,
    )  # fmt: skip
    return llama_cpp(card, model=model, decode_tokens_per_busy_s=speed)


FAULTS = {
    "gpu_thermal_throttling": member(gpu(**HOT), **SLOW),
    "gpu_power_capped": member(gpu(**CAPPED), **SLOW),
    "gpu_held_at_low_clocks": member(gpu(clock_hz=0.6e9, power_w=200.0, power_max_w=250.0), **SLOW),
    "kv_cache_preemption": member(preemptions=400.0, cache_used=0.97, **QUEUED, **CROWDED),
    "queueing": member(places=8.0, **{**QUEUED, "waiting": 20.0}),
    "swapping": member(host=SWAP, **SLOW),
    "threads_exceed_cpu_quota": member(host={"quota_cpus": 1.0, "cpu_throttled": 0.6}, **SLOW),
    "pcie_link_degraded": tensor_parallel({"pcie_width": 4.0}, token_gap_s=0.0165),
    "speculative_decoding_hurts": member(draft_acceptance=0.15, **SLOW),
    "runtime_version_regressed": updated(running_before=8.0, **SLOW),
    "gpu_underused_by_one_stream": llama_cpp(places=1.0, waiting=3.0, running=0.98),
    "weights_spill_to_ram": on_a_4090("Qwen2.5-32B-Instruct-Q6_K", 24.0e9, 6.0),
}
NEAR_MISSES = {
    "gpu_thermal_throttling": member(gpu(**{**HOT, "busy": 0.5, "thermal_throttled": 0.05}), **SLOW),
    "gpu_power_capped": member(gpu(clock_hz=1.75e9, power_throttled=0.9, power_w=690.0, power_max_w=700.0)),
    "gpu_held_at_low_clocks": member(gpu(clock_hz=0.6e9, busy=0.4, power_w=200.0, power_max_w=250.0), **SLOW),
    "kv_cache_preemption": member(preemptions=2.0, cache_used=0.6),
    "queueing": member(waiting=0.2, queue_s=0.2, first_token_s=0.4),
    "swapping": member(host=SWAP),
    "threads_exceed_cpu_quota": member(host={"quota_cpus": 1.0, "cpu_throttled": 0.6}),
    "pcie_link_degraded": member(gpu(pcie_width=4.0), **SLOW),
    "speculative_decoding_hurts": member(draft_acceptance=0.15),
    "runtime_version_regressed": updated(running_before=8.0, token_gap_s=0.0077),
    "gpu_underused_by_one_stream": llama_cpp(places=1.0, waiting=0.1),
    "weights_spill_to_ram": on_a_4090("Qwen2.5-32B-Instruct-Q4_K_M", 22.5e9, 34.0),
}


@pytest.mark.parametrize("cause", FAULTS)
def test_fault_is_found_from_fleet_readings(cause):
    found = report(FAULTS[cause])
    assert found.verdict == "slow"
    assert cause in [finding.cause for finding in found.findings]
    assert found.findings[0].cause in (cause, "model_outside_envelope")


@pytest.mark.parametrize("cause", NEAR_MISSES)
def test_near_miss_is_not_found(cause):
    assert cause not in [finding.cause for finding in report(NEAR_MISSES[cause]).findings]


@pytest.mark.parametrize(
    "one",
    [
        member(),
        member(running=0.4, running_spread=0.5, token_gap_s=0.0065, generated_tokens_per_s=50.0),
        tensor_parallel({}, token_gap_s=0.005),
        member(gpu(0), gpu(1), token_gap_s=0.0067),
        member(about={"runtime": "SGLang", "info": {}}, kv_tokens=440_000.0),
        member(about={"runtime": "TGI", "info": {}}),
        member(host=dict.fromkeys(("cpus", "busy_cpus", "memory_total_bytes", "quota_cpus"))),
        member(gpu(thermal_throttled=None, power_throttled=None, clock_max_hz=None)),
    ],
    ids=["busy", "one by one", "tensor parallel", "copies", "SGLang", "TGI", "no host", "little of the GPU"],
)
def test_healthy_engine_has_no_findings(one):
    found = report(one)
    assert found.verdict == "normal"
    assert not found.findings


def test_idle_engine_with_idle_gpu_has_no_findings():
    idle = member(
        gpu(busy=0.0, clock_hz=345e6, power_w=70.0, power_max_w=71.0, pcie_generation=1.0), running=0.0,
        running_spread=0.0, token_gap_s=None, generated_tokens_per_s=0.0, tokens_counted=0.0,
        prompt_tokens_per_s=0.0, first_token_s=None, queue_s=None, request_s=None, prompt_tokens=None,
        answer_tokens=None,
    )  # fmt: skip
    found = report(msgspec.structs.replace(idle, engine={n: r for n, r in idle.engine.items() if n != "token_gap_s"}))
    assert found.verdict == "cannot_tell"
    assert not found.findings


def test_slow_engine_without_a_cause_is_slow_without_findings():
    found = report(member(**SLOW))
    assert found.verdict == "slow"
    assert not found.findings


def test_unknown_model_has_no_speed_verdict():
    for one in (member(gpu(**HOT), about={"model": "inhouse"}, **SLOW), member(host=SWAP, about={"model": "inhouse"})):
        found = report(one)
        assert found.verdict == "cannot_tell"
        assert not found.findings


def test_one_hot_gpu_of_two_is_found():
    found = report(tensor_parallel(HOT, token_gap_s=0.0165))
    assert [f.cause for f in found.findings] == ["gpu_thermal_throttling"]
    assert "heat throttles GPU 1" in found.findings[0].because


def test_bursty_waiting_is_queueing():
    found = report(member(waiting=0.3, queue_s=3.0, first_token_s=3.2, running=2.0))
    assert [f.cause for f in found.findings] == ["queueing"]
    assert found.findings[0].cost.seconds == 3.0


def test_full_cache_with_waiting_requests_is_found():
    found = report(member(cache_used=0.97, **QUEUED, **CROWDED))
    assert found.findings[0].cause == "kv_cache_preemption"
    half = report(member(cache_used=0.4, **QUEUED, **CROWDED))
    assert half.findings[0].cause == "queueing"


def test_higher_load_is_not_a_version_regression():
    assert not report(updated(running_before=2.0, **SLOW)).findings
    assert not report(updated(running_before=None, **SLOW)).findings
    same = msgspec.structs.replace(updated(running_before=8.0, **SLOW), version_before="0.11.0")
    assert not report(same).findings
