from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.fleet.capacity.limits import FEWEST, Moment, curve, first_tokens_of, gaps_of, quantile, seconds_at, spread


def moments(requests, gap_s, count=FEWEST, **more):
    return [Moment(requests, gap_s, **more) for _ in range(count)]


def test_bin_has_median_and_spread_of_its_moments():
    gaps = [0.01, 0.011, 0.012, 0.013, 0.014, 0.015, 0.016, 0.017, 0.018, 0.019, 0.02]
    [point] = gaps_of(Moment(3.0, gap) for gap in gaps)
    assert (point.requests, point.samples) == (3.0, 11)
    assert (point.low_s, point.mid_s, point.high_s) == pytest.approx((0.011, 0.015, 0.019))


def test_too_few_moments_give_no_curve_point():
    assert gaps_of(moments(2.0, 0.01, FEWEST - 1)) == []


def test_bins_widen_with_the_number_of_requests():
    found = gaps_of([*moments(100.0, 0.02), *moments(101.0, 0.02), *moments(200.0, 0.04)])
    assert [point.samples for point in found] == [2 * FEWEST, FEWEST]


def test_bins_that_fall_with_load_are_averaged():
    found = gaps_of([*moments(1.0, 0.010), *moments(2.0, 0.014), *moments(3.0, 0.012), *moments(4.0, 0.020)])
    assert [point.mid_s for point in found] == pytest.approx([0.010, 0.013, 0.013, 0.020])


@given(st.lists(st.tuples(st.floats(1, 300), st.floats(1e-4, 10)), min_size=1, max_size=80))
@settings(max_examples=60, deadline=None)
def test_curve_is_monotonic(pairs):
    found = curve([pair for pair in pairs for _ in range(FEWEST)])
    assert found
    for left, right in pairwise(found):
        assert left.requests < right.requests
        assert all(b >= a * (1 - 1e-9) for a, b in zip(left[1:4], right[1:4], strict=True))
    assert all(point.low_s <= point.mid_s * (1 + 1e-9) and point.mid_s <= point.high_s * (1 + 1e-9) for point in found)


def test_first_token_curve_uses_only_reported_values():
    told = moments(2.0, 0.01, first_token_s=0.4)
    assert first_tokens_of([*told, *moments(2.0, 0.01)])[0].samples == FEWEST
    assert first_tokens_of(moments(2.0, 0.01)) == []


def test_values_between_bins_are_interpolated_linearly():
    points = gaps_of([*moments(2.0, 0.010), *moments(4.0, 0.020)])
    at = [seconds_at(points, n, lambda point: point.mid_s) for n in (1.0, 3.0, 9.0)]
    assert at == pytest.approx([0.010, 0.015, 0.020])


def test_quantile_interpolates_between_values():
    assert quantile([1.0, 2.0], 0.25) == 1.25
    assert spread([7.0]) == (7.0, 7.0, 7.0)
