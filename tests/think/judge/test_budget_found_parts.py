"""A found cause has its part of the time; a cause that was not found has none."""

import pytest
from cases import cpu_case, gpu_case, with_facts

from unslow.facts.run import GpuUnderLoad, PhaseTelemetry, SamplerCost, Stat, Telemetry, TrialInTurns
from unslow.facts.snapshot import Case
from unslow.think.case.cure import Cure
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Found
from unslow.think.judge.findings import beyond_physics, priced_findings
from unslow.think.judge.judge import judge
from unslow.think.judge.phases import outlook
from unslow.think.judge.pricing import READING, SHARED, SWAPPING, UNEXPLAINED, budget, found_parts

DISK, SWAP, GPU = "weights_streamed_from_disk", "swapping", "gpu_shared_with_other_work"


def stat(mean: float, high: float) -> Stat:
    return Stat(mean=mean, low=0.0, high=high, last=mean, samples=20)


def watched(**host: Stat) -> dict[str, object]:
    cost = SamplerCost(seconds_per_sample=1e-4, slowest_sample_s=1e-3, cpus=0.01)
    phase = PhaseTelemetry(phase="decode", seconds=10.0, samples=20, host=host)
    return {"run.telemetry": Telemetry(seconds=10.0, samples=20, asked_hz=2.0, got_hz=2.0, cost=cost, phases=(phase,))}


def crawling(case: Case, times: float = 5.0, **facts: object) -> Case:
    """A case that takes so many times what physics expects."""
    expected = CaseView(case).speed.predict()
    assert isinstance(expected, Prediction)
    return with_facts(case, {"run.decode_tokens_per_s": 1 / (times * expected.seconds.mid)} | facts)


def parts(case: Case, *found: str) -> dict[str, float]:
    """Of a token, in shares."""
    split = [b for b in budget(CaseView(case), outlook(CaseView(case), None), found, {}) if b.phase == "decode"]
    total = sum(b.seconds for b in split)
    return {b.part: b.seconds / total for b in split}


def test_disk_part_is_the_share_of_its_bandwidth():
    case = crawling(cpu_case(), **watched(disk_read_bytes_per_s=stat(1.2e9, 2.0e9)))
    assert parts(case, DISK)[READING] == pytest.approx(0.6)
    assert parts(case, DISK)[UNEXPLAINED] == pytest.approx(0.2, abs=0.01)
    assert READING not in parts(case), "what was not found has no part"


def test_swap_is_not_counted_as_weight_reads():
    both = watched(disk_read_bytes_per_s=stat(1.2e9, 2.0e9), swap_in_bytes_per_s=stat(0.6e9, 2.0e9))
    shares = parts(crawling(cpu_case(), **both), DISK, SWAP)
    assert shares[READING] == pytest.approx(0.3)
    assert shares[SWAPPING] == pytest.approx(0.3)


def test_parts_share_the_unexplained_time():
    full = watched(disk_read_bytes_per_s=stat(2.0e9, 2.0e9))
    shares = parts(crawling(cpu_case(), times=2.0, **full, **{"run.waiting_for_cpu_s_per_token": 60.0}), DISK)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares[READING] == pytest.approx(shares["waiting for a CPU"], rel=0.3)
    assert shares[UNEXPLAINED] == pytest.approx(0.0, abs=1e-9)


def busy(share: float, **facts: object) -> dict[str, object]:
    return {"run.gpus": (with_busy(share, **facts),)}


def with_busy(share: float, **facts: object) -> GpuUnderLoad:
    case = with_facts(gpu_case(), {"run.gpus": (GpuUnderLoad(index=0, samples=9),)})
    case = with_facts(case, {"run.gpus.0.busy": share} | {f"run.gpus.0.{name}": v for name, v in facts.items()})
    return case.run.gpus.need()[0]


def test_fully_busy_gpu_gives_the_rest_to_other_processes():
    case = crawling(gpu_case(), **busy(1.0))
    assert parts(case, GPU)[SHARED] == pytest.approx(0.8, abs=0.02)
    assert SHARED not in parts(case)
    assert SHARED not in parts(crawling(gpu_case(), **busy(0.5)), GPU), "it pauses: something else may be slow"


def test_driver_count_of_other_processes_is_their_part():
    case = crawling(gpu_case(), **busy(0.5, others_busy=0.5))
    assert parts(case, GPU)[SHARED] == pytest.approx(0.5)
    assert parts(case, GPU)[UNEXPLAINED] == pytest.approx(0.3, abs=0.02)
    busy_all_the_time = crawling(gpu_case(), **busy(1.0, others_busy=0.1))
    assert parts(busy_all_the_time, GPU)[SHARED] == pytest.approx(0.8, abs=0.02)


def test_expected_speed_leaves_no_part_for_other_processes():
    case = crawling(gpu_case(), times=0.9, **busy(1.0))
    assert found_parts(CaseView(case), [GPU], outlook(CaseView(case), None).decode) == {}


def test_cause_costs_exactly_its_part():
    case = crawling(cpu_case(), **watched(disk_read_bytes_per_s=stat(1.0e9, 2.0e9)))
    (finding,) = priced_findings(CaseView(case), {DISK: Found("so", (), Cure())}, outlook(CaseView(case), None))
    token_s = outlook(CaseView(case), None).decode.measured_s
    assert finding.cost.seconds == pytest.approx(0.5 * token_s)
    assert finding.speedup == pytest.approx(2.0)


def test_sampling_trial_gives_the_sampler_part():
    tried = TrialInTurns(changed="no sampler", as_set_tokens_per_s=60.0, changed_tokens_per_s=120.0)
    case = with_facts(gpu_case(), {"run.plain_sampling": tried, "run.decode_tokens_per_s": 60.0})
    seconds = {b.part: b.seconds for b in judge(CaseView(case)).budget if b.phase == "decode"}
    assert seconds["samplers, measured"] == pytest.approx(1 / 120, rel=0.05)
    assert "sorting the vocabulary" not in seconds


def test_unpredicted_loss_of_a_found_cause_is_its_part():
    case, found = crawling(gpu_case()), {"speculative_decoding_hurts": Found("so", (), speedup=4.0)}
    seen = outlook(CaseView(case), None)
    parts_of = beyond_physics(CaseView(case), found, priced_findings(CaseView(case), found, seen), seen)
    assert list(parts_of.values()) == [pytest.approx(0.75 * seen.decode.measured_s)]
    split = {b.part: b.seconds for b in budget(CaseView(case), seen, found, parts_of) if b.phase == "decode"}
    assert split[next(iter(parts_of))] == pytest.approx(0.75 * seen.decode.measured_s)
    assert sum(split.values()) == pytest.approx(seen.decode.measured_s)


def test_predicted_loss_is_not_counted_twice():
    case = with_facts(cpu_case(), {"runtime.compute.threads": 64, "run.decode_tokens_per_s": 0.5})
    found, seen = {"threads_exceed_cores": Found("so", (), Cure(threads=4))}, outlook(CaseView(case), None)
    assert beyond_physics(case, found, priced_findings(CaseView(case), found, seen), seen) == {}
