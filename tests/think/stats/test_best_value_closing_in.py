"""The best value is found with few measurements."""

import pytest

from unslow.think.stats.best_value import closer_values, first_threads, gains_no_more


@pytest.mark.parametrize(
    ("physical", "fast", "most", "current", "values"),
    [
        (8, None, 16, 8, [1, 4, 8, 16]),
        (8, 8, 16, 7, [1, 4, 7, 8, 16]),
        (14, 6, 20, 6, [1, 6, 7, 14, 20]),
        (2, None, 2, 2, [1, 2]),
        (1, None, 1, None, [1]),
        (None, None, 4, None, [1, 2, 4]),
        (64, 64, 4, 64, [1, 2, 4, 64]),  # a box with four of 64 cores, and a server that does not know it
    ],
)
def test_first_thread_counts_follow_the_cores(physical, fast, most, current, values):
    assert first_threads(physical, fast, most, current) == values


@pytest.mark.parametrize("top", range(1, 33))
def test_search_closes_in_on_the_peak(top):
    speeds = {value: 1 / (1 + abs(value - top)) for value in (1, 8, 16, 32)}
    while between := closer_values(speeds):
        speeds |= {value: 1 / (1 + abs(value - top)) for value in between}
    found = max(speeds, key=lambda value: speeds[value])
    assert abs(found - top) <= max(1, top // 8)
    assert len(speeds) <= 14


def test_adjacent_values_have_nothing_between():
    assert closer_values({1: 1.0, 2: 2.0}) == []
    assert closer_values({4: 1.0}) == []


def test_knee_needs_two_steps_without_gain():
    assert not gains_no_more({64: 1.0, 128: 2.0}, 0.02)
    assert not gains_no_more({64: 1.0, 128: 2.0, 256: 2.01}, 0.02)
    assert gains_no_more({64: 1.0, 128: 2.0, 256: 2.01, 512: 2.02}, 0.02)
    assert not gains_no_more({64: 1.0, 128: 2.0, 256: 2.01, 512: 2.2}, 0.02)
