import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.stats.repeats import outermost_rank, robust_deviation, spread_of

VALUES = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=20)


def test_three_repeats_use_student_interval():
    spread = spread_of([40.0, 41.0, 42.0])
    assert spread.median == 41.0
    assert spread.count == 3
    # t(0.975, 2) = 4.303 times 2.44 % over the root of 3 is 6.06 %
    assert spread.low == pytest.approx(41 * math.exp(-0.0607), rel=1e-3)
    assert spread.high == pytest.approx(41 * math.exp(0.0606), rel=1e-3)


def test_six_or_more_repeats_use_rank_interval():
    assert [outermost_rank(n) for n in (6, 8, 9, 12, 20)] == [0, 0, 1, 2, 5]
    values = [float(n) for n in range(1, 13)]
    assert (spread_of(values).low, spread_of(values).high) == (3.0, 10.0)


def test_one_repeat_has_no_width():
    spread = spread_of([40.0])
    assert (spread.low, spread.high, spread.count, spread.spread) == (40.0, 40.0, 1, 0.0)


@pytest.mark.no_cover  # hundreds of samples through the same lines
@pytest.mark.parametrize("count", [3, 4, 5, 6, 9, 12])
def test_interval_covers_the_true_median_95_percent(count):
    chance = random.Random(count)
    trials = 1200
    held = 0
    for _ in range(trials):
        spread = spread_of([100 * math.exp(chance.gauss(0, 0.05)) for _ in range(count)])
        held += spread.low <= 100 <= spread.high
    assert held / trials > 0.935  # three standard errors below 0.95


@pytest.mark.parametrize("count", [6, 9])
def test_interval_covers_skewed_noise_too(count):
    chance = random.Random(count)
    truth, trials, held = 100 * math.exp(-0.1 * math.log(2)), 1200, 0
    for _ in range(trials):
        spread = spread_of([100 * math.exp(-0.1 * chance.expovariate(1)) for _ in range(count)])
        held += spread.low <= truth <= spread.high
    assert held / trials > 0.935


@pytest.mark.parametrize("count", [3, 4, 5, 6, 8, 15])
def test_robust_deviation_is_unbiased(count):
    chance = random.Random(count)
    found = statistics.fmean(robust_deviation([chance.gauss(0, 1) for _ in range(count)]) for _ in range(4000))
    assert found == pytest.approx(1.0, abs=0.04)


def test_outlier_hardly_moves_the_spread():
    assert spread_of([100, 101, 99, 100, 100.5, 20]).spread < 0.02


@given(VALUES)
def test_median_is_within_its_interval(values):
    spread = spread_of(values)
    assert 0 <= spread.low <= spread.median <= spread.high


@given(st.lists(st.floats(1, 1e3), min_size=3, max_size=20), st.sampled_from([0.25, 2.0, 1024.0]))
def test_units_do_not_matter(values, factor):
    plain, scaled = spread_of(values), spread_of([value * factor for value in values])
    assert scaled.median == pytest.approx(plain.median * factor)
    assert scaled.low == pytest.approx(plain.low * factor, rel=1e-6)
    assert scaled.spread == pytest.approx(plain.spread, abs=1e-9)


@given(st.lists(st.floats(0, 1e18), min_size=1, max_size=20))
def test_extreme_values_do_not_fail(values):
    spread = spread_of(values)
    assert math.isfinite(spread.high)


def test_thousands_of_repeats_have_an_interval():
    assert [outermost_rank(count) for count in (6, 9, 1000, 1025)] == [0, 1, 468, 480]
    dice = random.Random(1)
    spread = spread_of([dice.gauss(50, 5) for _ in range(20_000)])
    assert 49.8 < spread.low < spread.median < spread.high < 50.2


def test_two_repeats_have_a_range_as_interval():
    found = spread_of([0.5, 14.5])
    assert (found.low, found.high, found.count) == (0.5, 14.5, 2)
