"""Costs are recovered from times that they gave, and noise never makes one negative."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.least_squares import least_squares, nonnegative_least_squares

ROWS = [[1, 2, 0], [1, 8, 3], [1, 1, 9], [1, 5, 5], [1, 0, 2]]


def times(rows, costs):
    return [sum(a * b for a, b in zip(row, costs, strict=True)) for row in rows]


@given(st.lists(st.floats(0.1, 100), min_size=3, max_size=3))
def test_known_costs_are_recovered(costs):
    assert nonnegative_least_squares(ROWS, times(ROWS, costs)) == pytest.approx(costs, rel=1e-6)


def test_very_different_scales_are_recovered():
    rows = [[1, 300, 7e8], [1, 18, 1e6], [1, 20, 3e8], [1, 600, 2e8]]
    costs = [1e-4, 2e-6, 7e-11]
    assert nonnegative_least_squares(rows, times(rows, costs)) == pytest.approx(costs, rel=1e-6)


def test_negative_cost_becomes_zero():
    assert nonnegative_least_squares([[1, 0], [1, 1]], [2.0, 1.0]) == [pytest.approx(1.5), 0.0]


def test_undetermined_cost_becomes_zero():
    assert nonnegative_least_squares([[1, 0], [2, 0]], [3.0, 6.0]) == [pytest.approx(3.0), 0.0]
    assert nonnegative_least_squares([], []) == []
    assert nonnegative_least_squares([[1, 2], [2, 4]], [3.0, 6.0])[0] == pytest.approx(3.0)


@given(st.lists(st.lists(st.floats(0, 10), min_size=4, max_size=4), min_size=2, max_size=9), st.data())
def test_costs_are_never_negative(rows, data):
    targets = data.draw(st.lists(st.floats(0, 10), min_size=len(rows), max_size=len(rows)))
    assert all(cost >= 0 for cost in nonnegative_least_squares(rows, targets))


def test_fit_gives_the_line_and_its_errors():
    rows = [[1.0, x] for x in (0.0, 1.0, 2.0, 3.0)]
    fit = least_squares(rows, [1.0, 3.0, 5.0, 7.0])
    assert fit.values == pytest.approx((1.0, 2.0))
    assert fit.left_over == pytest.approx(0.0, abs=1e-12)
    assert fit.errors[1] == pytest.approx((1 / 5) ** 0.5)


def test_dependent_rows_give_no_fit():
    assert least_squares([[1.0, 2.0], [1.0, 2.0]], [1.0, 1.0]) is None
    assert least_squares([[1.0, 0.0], [1.0, 0.0]], [1.0, 1.0]) is None
