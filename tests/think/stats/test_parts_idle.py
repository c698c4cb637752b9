import pytest

from unslow.facts.run import GpuTelemetry, PhaseTelemetry, SamplerCost, Stat, Telemetry
from unslow.think.stats.parts import Parts, Round, Step, Timing, checked_by_idle, parts_of


def watched(*busy: float, phase: str = "decode") -> Telemetry:
    gpus = tuple(
        GpuTelemetry(index=n, figures={"busy": Stat(mean=one, low=one, high=one, last=one, samples=9)})
        for n, one in enumerate(busy)
    )
    seen = PhaseTelemetry(phase=phase, seconds=9, samples=90, gpus=gpus)  # type: ignore[arg-type]
    cost = SamplerCost(seconds_per_sample=0.001, slowest_sample_s=0.002, cpus=0.01)
    return Telemetry(seconds=9, samples=90, asked_hz=10, got_hz=10, cost=cost, phases=(seen,))


def split(step_s: float) -> Parts:
    parts = parts_of([Round(Timing(0.0046, 0.0046)) for _ in range(9)], Step(step_s, step_s, step_s, "llama-bench"))
    assert parts
    return parts


def test_gpu_idle_time_that_matches_the_parts_is_noted(wording):
    checked = checked_by_idle(split(0.0038), watched(0.84))
    assert checked.gpu_idle_s == pytest.approx(0.16 * 0.0046)
    wording(checked.notes[-1], tells="16%")


def test_fully_busy_gpu_contradicts_a_gap(wording):
    wording(checked_by_idle(split(0.0030), watched(0.99)).notes[-1])


def test_negligible_idle_time_and_gap_agree(wording):
    wording(checked_by_idle(split(0.00458), watched(0.99)).notes[-1])


def test_busiest_of_several_gpus_counts():
    assert checked_by_idle(split(0.0038), watched(0.1, 0.9)).gpu_idle_s == pytest.approx(0.1 * 0.0046)


def test_without_gpu_telemetry_during_decode_nothing_is_checked():
    parts = split(0.0038)
    assert checked_by_idle(parts, None) == parts
    assert checked_by_idle(parts, watched()) == parts
    assert checked_by_idle(parts, watched(0.9, phase="prefill")) == parts
