import random

from unslow.think.stats.repeats import paired_difference


def test_six_or_more_differences_use_rank_interval():
    found = paired_difference([5, 1, 2, 3, 4, 6, 7, 8, 100])
    assert (found.middle, found.low, found.high) == (5, 2, 8)
    assert found.told_apart


def test_fewer_differences_use_student_interval():
    found = paired_difference([1.0, 1.1, 0.9])
    assert found.low < 1.0 < found.high
    assert found.told_apart
    assert not paired_difference([1.0, -0.9, 0.2]).told_apart


def test_single_difference_is_never_significant():
    assert not paired_difference([3.0]).told_apart
    assert paired_difference([-3.0]) == (-3.0, -3.0, 0.0)


def test_noise_is_significant_in_under_5_percent():
    draw = random.Random(7)
    wrong = sum(paired_difference([draw.gauss(0, 1) for _ in range(9)]).told_apart for _ in range(1000))
    assert wrong < 50
