import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.depth_series import (
    GPU_SLOPE_S,
    ON_CPU,
    ON_H200,
    doubling,
    flat,
    kv_on_host,
    on_cpu,
    on_gpu,
    series,
    stepping,
)  # fmt: skip

from unslow.commands.diagnose.target import read_stored
from unslow.think.case.view import CaseView
from unslow.think.stats.depth import Expectation, Reading, expectation_of, judge_depths

MACHINES = Path(__file__).parents[2] / "machines"
COUNTS = [4, 5, 7, 9]
NOISES = [0.01, 0.03, 0.05]


def verdicts(make, expected, seeds=20) -> list[str]:
    return [judge_depths(make(seed), expected).verdict for seed in range(seeds)]


@pytest.mark.no_cover  # hundreds of curves through the same lines
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", COUNTS)
def test_normal_slope_is_neither_cliff_nor_steep(count, noise):
    found = verdicts(lambda seed: series(doubling(count), on_cpu, noise, seed), ON_CPU)
    assert found.count("slope") >= 18
    assert set(found) <= {"slope", "cannot_tell"}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", COUNTS)
def test_noisy_slope_is_never_a_cliff(count, noise):
    found = verdicts(lambda seed: series(doubling(count), on_gpu, noise, seed), ON_H200)
    assert "cliff" not in found
    assert found.count("slope") >= 18 or count < 7


@pytest.mark.no_cover  # hundreds of curves through the same lines
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("times", [1.5, 2.0, 5.0, 20.0])
@pytest.mark.parametrize("count", COUNTS)
def test_cliff_is_found_at_any_depth(count, times, noise):
    depths = doubling(count)
    found = [
        (judge_depths(series(depths, stepping(times, depths[index]), noise, index)), depths[index])
        for index in range(count - 1)
    ]
    right = [curve.verdict == "cliff" and curve.knee == knee for curve, knee in found]
    assert all(right) or (times < 2 and noise > 0.03 and sum(right) >= count // 2)


@pytest.mark.parametrize("count", COUNTS)
def test_small_cliff_is_found_when_noise_is_small(count):
    depths = doubling(count)
    for index in range(count - 1):
        curve = judge_depths(series(depths, stepping(1.3, depths[index]), 0.01, index))
        assert curve.verdict in ("cliff", "cannot_tell")
        assert curve.knee == depths[index]


def test_cliff_measured_twice_is_clear(wording):
    once = judge_depths(series(doubling(6), stepping(3, 5000), 0.01, rounds=1))
    twice = judge_depths(series(doubling(6), stepping(3, 5000), 0.01, rounds=2))
    assert (once.verdict, once.clear) == ("cliff", False)
    assert "measured once" in once.because
    assert (twice.verdict, twice.clear, twice.knee, twice.beyond) == ("cliff", True, 4096, 8192)
    wording(twice.because, tells=("4096", "8192"))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", COUNTS)
def test_cache_in_host_memory_is_steep(count, noise):
    found = verdicts(lambda seed: series(doubling(count), kv_on_host, noise, seed), ON_H200)
    assert found.count("steep") >= 17
    assert set(found) <= {"steep", "cannot_tell"}


def test_steep_slope_names_the_cache_location(wording):
    curve = judge_depths(series(doubling(7), kv_on_host, 0.01), ON_H200)
    wording(curve.because)
    assert "50 GB/s" in curve.because
    assert curve.clear


def test_steep_gpu_attention_names_flash_attention():
    curve = judge_depths(series(doubling(8), lambda d: 0.0045 + 6 * GPU_SLOPE_S * d, 0.005), ON_H200)
    assert curve.verdict == "steep"
    assert "flash attention" in curve.because


def test_steep_slope_without_expectation_is_slope(wording):
    curve = judge_depths(series(doubling(7), kv_on_host, 0.01))
    assert curve.verdict == "slope"
    wording(curve.because)


def test_slope_is_compared_with_the_expectation(wording):
    curve = judge_depths(series(doubling(6), on_cpu, 0.005), ON_CPU)
    wording(curve.because, tells="1.3 times")
    assert curve.clear


@pytest.mark.parametrize("count", COUNTS)
def test_constant_time_is_flat(count):
    found = verdicts(lambda seed: series(doubling(count), flat, 0.02, seed), ON_H200)
    assert found.count("flat") >= 18
    assert "cliff" not in found


def test_flat_curve_where_a_slope_is_expected_says_so(wording):
    wording(judge_depths(series(doubling(8), flat, 0.005), ON_H200).because)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", [5, 7, 9])
@pytest.mark.parametrize("moment", [0.3, 0.5, 0.7])
def test_slowdown_during_the_sweep_is_drift_not_cliff(count, noise, moment):
    found = verdicts(
        lambda seed: series(doubling(count), on_gpu, noise, seed, slower=lambda s: 3.0 if s > moment else 1.0), ON_H200
    )
    assert found.count("drift") >= 18
    assert "cliff" not in found


def test_gradual_throttling_is_drift(wording):
    curve = judge_depths(series(doubling(7), flat, 0.01, slower=lambda s: 1 + 0.4 * s))
    assert curve.verdict == "drift"
    wording(curve.because)


def test_other_work_that_ends_is_drift(wording):
    curve = judge_depths(series(doubling(7), flat, 0.01, slower=lambda s: 1.5 - 0.5 * s))
    assert curve.verdict == "drift"
    wording(curve.because)


def test_small_drift_is_removed_from_a_large_slope(wording):
    curve = judge_depths(series(doubling(7), on_cpu, 0.005, slower=lambda s: 1 + 0.18 * s), ON_CPU)
    assert curve.verdict == "slope"
    wording(curve.because)


def test_single_disturbance_is_neither_cliff_nor_drift():
    readings = series(doubling(6), on_cpu, 0.01, rounds=3)
    readings[4] = readings[4]._replace(seconds=readings[4].seconds * 4)
    assert judge_depths(readings, ON_CPU).verdict not in ("cliff", "drift")


def test_very_noisy_curve_gives_cannot_tell():
    curve = judge_depths(series(doubling(6), on_cpu, 0.8, seed=2), ON_CPU)
    assert curve.verdict == "cannot_tell"


def test_bend_at_the_cpu_cache_size_is_not_a_cliff():
    curve = judge_depths(
        series(doubling(6), lambda d: 0.012 + 1e-6 * min(d, 1000) + 5e-6 * max(0, d - 1000), 0.01), ON_CPU
    )
    assert curve.verdict != "cliff"


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "no depth has a speed;"), (1, "only one depth has a speed;"), (2, "only 2 depths have a speed;")],
)
def test_too_few_depths_give_cannot_tell(count, told):
    curve = judge_depths(series(doubling(count), on_cpu, 0.01))
    assert curve.verdict == "cannot_tell"
    assert curve.because.startswith(told)


def test_cliff_with_spill_signs_is_a_spill(wording):
    readings = series(doubling(6), stepping(4, 5000), 0.01)
    calm, busy = {"own_cpus": 1.0}, {"own_cpus": 9.5}
    seen = {d: busy if d > 5000 else calm for d in map(float, doubling(6))}
    wording(judge_depths(readings, ON_H200, seen).because, tells=("9.5", "1.0"))
    quiet = dict.fromkeys(map(float, doubling(6)), calm)
    wording(judge_depths(readings, ON_H200, quiet).because)
    assert "Memory was not measured" in judge_depths(readings, ON_H200).because


@given(
    st.lists(st.builds(Reading, st.integers(1, 10**6), st.floats(0, 1e6), st.floats(0, 1e6)), max_size=24),
    st.builds(Expectation, st.floats(0, 1), st.booleans(), st.floats(0, 1e9), st.floats(0, 1e13), st.floats(0, 1e12)),
)
@settings(max_examples=200, deadline=None)
def test_arbitrary_readings_give_a_verdict(readings, expected):
    curve = judge_depths(readings, expected)
    assert curve.because
    assert curve.knee is None or (curve.beyond is not None and math.isfinite(curve.knee) and curve.knee < curve.beyond)


@given(st.integers(5, 10), st.floats(0.001, 0.01), st.integers(0, 10**6), st.floats(1.0, 1.1))
@settings(max_examples=60, deadline=None)
def test_small_kernel_steps_are_not_a_cliff(count, noise, seed, times):
    assert judge_depths(series(doubling(count), stepping(times, 3000), noise, seed), ON_H200).verdict != "cliff"


MEASURED_ON_H200 = {
    "llama-3.1-8b": {0: (3.65, 3.65, 3.84), 4096: (3.86, 3.99), 16384: (4.55, 4.61), 32768: (5.57, 5.72)},
    "mistral-7b": {0: (3.45, 3.44, 3.44), 8192: (3.92, 3.92, 3.91), 32768: (5.29, 5.33)},
    "llama-3.1-8b without flash attention": {0: (4.15, 4.31), 4096: (4.32, 4.48), 16384: (5.57, 5.67)},
}
"""Milliseconds for a token, Q4_K_M, as lab/data/h200_speed_*.jsonl has them."""


@pytest.mark.parametrize("name", MEASURED_ON_H200)
def test_h200_measurements_are_a_normal_slope(name, wording):
    case = next(read_stored(str(MACHINES / "h200_llama_server_healthy_8b")).cases())
    readings = [Reading(depth, ms / 1000) for depth, times in MEASURED_ON_H200[name].items() for ms in times]
    curve = judge_depths(readings, expectation_of(CaseView(case), 32768))
    assert curve.verdict == "slope"
    wording(curve.because, tells="1.9 times" if "without flash" in name else "1.3 times")


def test_h200_cache_read_from_the_host_is_steep(wording):
    case = next(read_stored(str(MACHINES / "h200_llama_server_kv_on_host")).cases())
    expected = expectation_of(CaseView(case), 32768)
    slope = expected.kv_bytes / expected.host_bytes_per_s
    curve = judge_depths(series(doubling(6), lambda depth: 0.0102 + slope * depth, 0.03), expected)
    assert curve.verdict == "steep"
    wording(curve.because)
