from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.stats.figures import gaps_of, quantile_of


def test_gaps_between_single_tokens_are_measured():
    arrivals = [0.5 + 0.01 * n for n in range(101)]
    arrivals[60:] = [t + 0.2 for t in arrivals[60:]]  # one stall
    gaps = gaps_of(arrivals, 101)
    assert gaps is not None
    assert gaps.count == 100
    assert gaps.p50_s == pytest.approx(0.01)
    assert gaps.p99_s == pytest.approx(0.01)
    assert gaps.max_s == pytest.approx(0.21)


def test_chunks_of_several_tokens_keep_their_own_gaps():
    gaps = gaps_of([1.0, 1.4, 1.8], 12)
    assert gaps is not None
    assert gaps.p50_s == pytest.approx(0.4)
    assert gaps.count == 2


@pytest.mark.parametrize(("arrivals", "tokens"), [([], 0), ([1.0], 1), ([1.0], 30), ([1.0, 2.0], 0)])
def test_too_few_arrivals_give_no_gaps(arrivals, tokens):
    assert gaps_of(arrivals, tokens) is None


def test_quantile_is_the_smallest_sufficient_value():
    ordered = [float(n) for n in range(1, 101)]
    assert [quantile_of(ordered, share) for share in (0.0, 0.5, 0.95, 0.99, 1.0)] == [1, 50, 95, 99, 100]
    assert quantile_of([1.0, 2.0], 0.5) == 1.0
    assert quantile_of([1.0, 2.0], 0.51) == 2.0


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=60))
def test_quantiles_are_observed_gaps_and_never_decrease(arrivals):
    arrivals = sorted(arrivals)
    gaps = gaps_of(arrivals, len(arrivals))
    assert gaps is not None
    seen = [b - a for a, b in pairwise(arrivals)]
    assert {gaps.p50_s, gaps.p95_s, gaps.p99_s, gaps.max_s} <= set(seen)
    assert gaps.p50_s <= gaps.p95_s <= gaps.p99_s <= gaps.max_s
