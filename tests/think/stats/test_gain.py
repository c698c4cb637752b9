"""Confidence intervals of paired gains: their coverage is as stated."""

import math
import random
import statistics

import pytest

from unslow.think.stats.gain import MOST_EXACT, _left_out, gain_of


@pytest.mark.parametrize(("count", "left_out"), [(6, 0), (7, 2), (8, 3), (10, 8), (20, 52), (50, 434)])
def test_wilcoxon_critical_values_match_the_tables(count, left_out):
    # critical values of Wilcoxon's signed-rank test, two-sided 5 %
    assert _left_out(count, 0.95) == left_out


def test_normal_approximation_agrees_with_exact_counts():
    assert abs(_left_out(MOST_EXACT + 1, 0.95) - _left_out(MOST_EXACT, 0.95)) < 25


@pytest.mark.parametrize(("count", "times"), [(3, 400), (6, 400), (12, 400), (64, 60)])
def test_interval_covers_the_truth(count, times):
    dice = random.Random(count)
    held = 0
    for _ in range(times):
        found = gain_of([0.1 + dice.gauss(0, 0.05) for _ in range(count)])
        held += found.low <= 0.1 <= found.high
    assert held / times > 0.9


def test_negated_gains_give_the_mirrored_interval():
    gains = [0.02, 0.05, -0.01, 0.03, 0.04, 0.06, 0.01]
    one, other = gain_of(gains), gain_of([-gain for gain in gains])
    assert (other.low, other.middle, other.high) == pytest.approx((-one.high, -one.middle, -one.low))


def test_stalled_round_hardly_moves_the_gain():
    calm = [0.10, 0.11, 0.09, 0.10, 0.12, 0.10, 0.09, 0.11, 0.10, 0.10, 0.12, 0.11, 0.09, 0.10]
    stalled = gain_of([*calm[:-1], -3.0])
    assert stalled.middle == pytest.approx(statistics.median(calm), abs=0.01)
    assert stalled.low > 0


def test_more_rounds_narrow_the_interval():
    dice = random.Random(5)
    gains = [dice.gauss(0, 0.05) for _ in range(40)]
    assert gain_of(gains).reach < gain_of(gains[:10]).reach < gain_of(gains[:3]).reach


def test_one_round_has_an_unbounded_interval():
    found = gain_of([0.3])
    assert found.middle == 0.3
    assert math.exp(found.high) > 1e6
    assert found.pairs == 1


def test_higher_confidence_widens_the_interval():
    dice = random.Random(1)
    for count in (3, 6, 8, 20, 70):
        values = [dice.gauss(0.1, 0.05) for _ in range(count)]
        usual, sure = gain_of(values), gain_of(values, 0.995)
        assert sure.low < usual.low <= usual.high < sure.high
