import random
import statistics
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from unslow.think.stats.drift import Level, levels, series_noise, trend, two_kinds

values = st.lists(st.floats(0.1, 1e4), min_size=1, max_size=60)


def noisy(seed: int, *stretches: tuple[float, int], deviation: float = 0.02) -> list[float]:
    dice = random.Random(seed)
    return [level * (1 + dice.gauss(0, deviation)) for level, count in stretches for _ in range(count)]


@given(values)
def test_levels_cover_the_whole_series_once(series: list[float]):
    found = levels(series, 0.05)
    assert [level.start for level in found[1:]] == [level.end for level in found[:-1]]
    assert (found[0].start, found[-1].end) == (0, len(series))
    assert all(min(series) <= level.value <= max(series) for level in found)


@given(values)
def test_adjacent_levels_differ(series: list[float]):
    found = levels(series, 0.05)
    for a, b in pairwise(found):
        assert min(a.value, b.value) <= 0.95 * max(a.value, b.value) + 1e-9


@given(values, st.floats(0.01, 100))
def test_unit_does_not_matter(series: list[float], factor: float):
    edges = [level.start for level in levels(series, 0.05)]
    other = [level.start for level in levels([value * factor for value in series], 0.05)]
    assert len(edges) == len(other)


def test_empty_series_has_no_levels():
    assert levels([], 0.05) == []


def test_step_is_found_at_its_position():
    for seed in range(50):
        found = levels(noisy(seed, (50, 20), (40, 20)), 0.05)
        assert len(found) == 2
        assert abs(found[0].end - 20) <= 1


def test_noise_has_one_level():
    wrong = sum(len(levels(noisy(seed, (50, 60), deviation=0.05), 0.05)) > 1 for seed in range(100))
    assert wrong <= 2


def test_single_outliers_are_not_a_level():
    series = noisy(3, (50, 30))
    series[7], series[19] = 5.0, 90.0
    assert len(levels(series, 0.05)) == 1


def test_dip_has_three_levels():
    found = levels(noisy(1, (50, 18), (38, 24), (50, 18)), 0.05)
    assert [round(level.value / 50, 1) for level in found] == [1.0, 0.8, 1.0]
    assert abs(found[1].start - 18) <= 1
    assert abs(found[1].end - 42) <= 1


def test_noiseless_series_is_one_level_or_its_step():
    assert levels([7.0] * 9, 0.05) == [Level(0, 9, 7.0)]
    assert len(levels([7.0] * 9 + [5.0] * 9, 0.05)) == 2


def test_noise_estimate_ignores_the_step():
    calm, stepped = noisy(2, (50, 40)), noisy(2, (50, 20), (30, 20))
    assert series_noise(stepped) < 1.2 * series_noise(calm)


def test_slope_is_a_trend_and_noise_is_not():
    dice = random.Random(5)
    sloped = [50 * (1 - 0.1 * n / 39) * (1 + dice.gauss(0, 0.02)) for n in range(40)]
    assert -0.14 < trend(sloped).change < -0.07
    assert trend(sloped).chance < 0.001
    by_chance = sum(trend(noisy(seed, (50, 40))).chance < 0.01 for seed in range(100))
    assert by_chance <= 5


def test_single_value_has_no_trend():
    assert trend([5.0]) == (0.0, 1.0)


def test_alternating_speeds_are_two_kinds():
    dice = random.Random(1)
    mixed = [dice.choice((35, 50)) * (1 + dice.gauss(0, 0.02)) for _ in range(60)]
    low, high = two_kinds(mixed, 0.1) or (0, 0)
    assert (round(low), round(high)) == (35, 50)


def test_step_is_not_two_kinds():
    assert two_kinds(noisy(1, (50, 30), (35, 30)), 0.1) is None


def test_single_speed_is_not_two_kinds():
    assert sum(two_kinds(noisy(seed, (50, 60), deviation=0.05), 0.1) is not None for seed in range(100)) == 0
    assert two_kinds([1.0, 2.0], 0.1) is None


def test_level_value_is_the_median_of_its_values():
    series = noisy(4, (50, 20), (30, 20))
    for level in levels(series, 0.05):
        assert level.value == statistics.median(series[level.start : level.end])
