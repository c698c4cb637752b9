import pytest

from unslow.fleet.capacity.limits import (
    CACHE,
    PLACES,
    SPEED,
    UNSEEN,
    At,
    Limit,
    Moment,
    beyond,
    by_cache,
    by_places,
    by_seconds,
    tightest,
)

LINE = [At(n, 0.9 * (0.01 + 0.001 * n), 0.01 + 0.001 * n, 1.1 * (0.01 + 0.001 * n), 20) for n in (1.0, 4.0, 8.0, 16.0)]
CURVE = beyond(LINE)


def test_the_most_requests_at_a_goal_and_the_interval_of_slow_and_fast_moments():
    limit = by_seconds(CURVE.seconds, 0.02, SPEED, CURVE.farthest)
    assert limit.what == SPEED
    assert (limit.low, limit.mid, limit.high) == pytest.approx((8.18, 10.0, 12.22), abs=0.05)


def test_a_goal_that_even_one_request_misses_is_served_for_nobody():
    assert by_seconds(CURVE.seconds, 0.005, SPEED, CURVE.farthest).mid == 0.0


def test_a_goal_that_nothing_seen_reaches_says_so():
    limit = by_seconds(CURVE.seconds, 10.0, SPEED, CURVE.farthest)
    assert (limit.what, limit.mid) == (UNSEEN, 64.0)


def test_the_cache_ends_it_where_as_much_for_each_would_fill_it():
    moments = [Moment(n, 0.01, cache_used=n * 0.02) for n in (3.0, 5.0, 10.0, 12.0, 20.0)]
    limit = by_cache(moments)
    assert limit is not None
    assert limit.what == CACHE
    assert limit.mid == pytest.approx(50.0)


def test_a_cache_that_is_hardly_used_tells_nothing():
    assert by_cache([Moment(3.0, 0.01, cache_used=0.01)] * 20) is None
    assert by_cache([Moment(3.0, 0.01)] * 20) is None


def test_places_are_told_or_seen_where_others_waited():
    assert by_places([], 32.0) == Limit(PLACES, 32.0, 32.0, 32.0)
    waited = [Moment(16.0, 0.01, waiting=3.0, cache_used=0.4)] * 5
    seen = by_places([*waited, *[Moment(4.0, 0.01, waiting=0.0)] * 50], None)
    assert seen is not None
    assert (seen.what, seen.mid) == (PLACES, 16.0)


def test_who_waits_for_a_full_cache_tells_nothing_of_places():
    assert by_places([Moment(16.0, 0.01, waiting=3.0, cache_used=0.97)] * 20, None) is None


def test_what_ends_it_first_counts_and_the_interval_is_that_of_all():
    found = tightest([Limit(SPEED, 8.0, 10.0, 14.0), Limit(CACHE, 7.0, 11.0, 12.0)])
    assert found == Limit(SPEED, 7.0, 10.0, 12.0)


def test_one_server_that_holds_requests_back_is_no_limit_of_the_others():
    held = [Moment(2.0, 0.01, waiting=3.0)] * 20
    assert by_places([*held, *[Moment(30.0, 0.02, waiting=0.0)] * 20], None) is None
