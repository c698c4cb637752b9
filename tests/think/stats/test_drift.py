import random
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.stats.drift import Drift, Slice, judge_drift, what_changed

VERDICTS = {"steady", "falls", "recovers", "unsteady", "cannot_tell"}


def series(seed: int, level: Callable[[float], float], count: int = 20, deviation: float = 0.02) -> Drift:
    """Slices of six requests each, one in twenty of which is an outlier."""
    dice = random.Random(seed)
    slices, speeds = [], []
    for n in range(count):
        some = [
            level(n / count) * (1 + dice.gauss(0, deviation)) * (dice.uniform(0.3, 0.8) if dice.random() < 0.05 else 1)
            for _ in range(6)
        ]
        speeds += some
        slices.append(Slice(float(n), statistics.median(some)))
    return judge_drift(slices, speeds)


def share(verdict: str, level: Callable[[float], float], **options: float) -> float:
    return sum(series(seed, level, **options).verdict == verdict for seed in range(40)) / 40  # type: ignore[arg-type]


@pytest.mark.parametrize("deviation", [0.005, 0.02, 0.05])
def test_steady_server_is_steady(deviation: float):
    assert share("steady", lambda _: 50.0, deviation=deviation) >= 0.95


@pytest.mark.parametrize("count", [10, 20, 60])
def test_throttling_by_10_percent_is_found(count: int):
    assert share("falls", lambda t: 50.0 if t < 0.4 else 45.0, count=count) >= 0.95


def test_gradual_decline_is_found():
    assert share("falls", lambda t: 50.0 * (1 - 0.12 * t)) >= 0.95


def test_temporary_slowdown_recovers():
    assert share("recovers", lambda t: 38.0 if 0.3 <= t < 0.7 else 50.0) >= 0.95


def test_slow_start_recovers():
    assert share("recovers", lambda t: 38.0 if t < 0.3 else 50.0) >= 0.95


def test_minute_of_the_fall_is_reported():
    drift = series(1, lambda t: 50.0 if t < 0.4 else 40.0)
    assert drift.knee is not None
    assert abs(drift.knee - 8) <= 1
    assert "less)" in drift.because
    assert drift.late == pytest.approx(40, rel=0.03)
    assert drift.settled_since == drift.knee


def test_alternating_speeds_are_unsteady():
    dice = random.Random(1)
    found = 0
    for seed in range(40):
        dice.seed(seed)
        found += series(seed, lambda _: dice.choice((50.0, 35.0))).verdict == "unsteady"
    assert found >= 36


def test_repeated_ups_and_downs_are_unsteady():
    drift = series(2, lambda t: 50.0 if int(t * 6) % 2 else 38.0, count=60)
    assert drift.verdict == "unsteady"
    assert "the speed changed" in drift.because


def test_noisy_series_is_rarely_steady():
    verdicts = [series(seed, lambda _: 50.0, count=6, deviation=0.15).verdict for seed in range(60)]
    assert verdicts.count("steady") < 30


@pytest.mark.parametrize(("count", "deviation", "unnoticed"), [(10, 0.08, 20), (60, 0.08, 7), (10, 0.03, 7)])
def test_less_noise_and_more_values_show_smaller_changes(count: int, deviation: float, unnoticed: int):
    drift = series(0, lambda _: 50.0, count, deviation)
    assert f"a change below {unnoticed}%" in drift.because


def test_too_few_slices_give_cannot_tell():
    drift = judge_drift([Slice(0, 50.0), Slice(1, 50.0), Slice(2, 0.0), Slice(3, 50.0)])
    assert drift.verdict == "cannot_tell"
    assert "only 3" in drift.because


@given(st.lists(st.floats(0, 1e5), max_size=40), st.lists(st.floats(0, 1e5), max_size=40))
def test_every_series_has_a_verdict(rates: list[float], speeds: list[float]):
    drift = judge_drift([Slice(float(n), rate) for n, rate in enumerate(rates)], speeds)
    assert drift.verdict in VERDICTS
    assert drift.because
    assert (drift.knee is not None) == (drift.verdict in ("falls", "recovers"))


def test_counters_that_fell_with_the_speed_are_reported(wording):
    hot = {"gpu0_clock_hz": 1.41e9, "gpu0_temperature_c": 84.0, "gpu0_power_w": 250.0, "own_cpus": 1.0}
    cool = {"gpu0_clock_hz": 1.98e9, "gpu0_temperature_c": 61.0, "gpu0_power_w": 350.0, "own_cpus": 1.01}
    slices = [Slice(float(n), 50.0 + n % 2, cool) for n in range(8)]
    slices += [Slice(8.0 + n, 38.0 + n % 2, {**hot, "gpu0_reason_sw_thermal_slowdown": 0.9}) for n in range(8)]
    drift = judge_drift([one._replace(seen={"gpu0_reason_sw_thermal_slowdown": 0.0, **one.seen}) for one in slices])
    assert drift.verdict == "falls"
    wording(drift.because, tells=("90%", "1980", "1410 MHz", "61", "84 °C"))
    assert "cpus" not in drift.because


def test_unchanged_counters_are_not_reported():
    same = [Slice(0, 1.0, {"cpu_clock_hz": 3e9, "answered": 5.0, "disk_read_bytes_per_s": 1e5})]
    assert (
        what_changed(same, [Slice(1, 1.0, {"cpu_clock_hz": 2.99e9, "answered": 2.0, "disk_read_bytes_per_s": 9e5})])
        == ""
    )
    assert what_changed(same, [Slice(1, 1.0)]) == ""


def test_new_throttle_reason_is_reported(wording):
    before = [Slice(0, 1.0, {"gpu0_clock_hz": 2e9})]
    after = [Slice(1, 1.0, {"gpu0_clock_hz": 2e9, "gpu0_reason_sw_power_cap": 0.8}), Slice(2, 1.0, {"own_cpus": 1.0})]
    wording(what_changed(before, after), tells="40%")
    assert what_changed([Slice(0, 1.0)], after) == ""
