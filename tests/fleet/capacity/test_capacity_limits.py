import pytest

from unslow.fleet.capacity.limits import (
    CACHE,
    PLACES,
    SPEED,
    UNSEEN,
    At,
    Limit,
    Moment,
    extrapolate,
    limit_by_cache,
    limit_by_seconds,
    limit_by_slots,
    tightest_limit,
)

LINE = [At(n, 0.9 * (0.01 + 0.001 * n), 0.01 + 0.001 * n, 1.1 * (0.01 + 0.001 * n), 20) for n in (1.0, 4.0, 8.0, 16.0)]
CURVE = extrapolate(LINE)


def test_limit_by_seconds_has_interval_from_slow_and_fast_moments():
    limit = limit_by_seconds(CURVE.seconds, 0.02, SPEED, CURVE.farthest)
    assert limit.what == SPEED
    assert (limit.low, limit.mid, limit.high) == pytest.approx((8.18, 10.0, 12.22), abs=0.05)


def test_goal_missed_by_one_request_has_limit_zero():
    assert limit_by_seconds(CURVE.seconds, 0.005, SPEED, CURVE.farthest).mid == 0.0


def test_goal_never_reached_within_range_is_unseen():
    limit = limit_by_seconds(CURVE.seconds, 10.0, SPEED, CURVE.farthest)
    assert (limit.what, limit.mid) == (UNSEEN, 64.0)


def test_kv_cache_limit_scales_usage_per_request():
    moments = [Moment(n, 0.01, cache_used=n * 0.02) for n in (3.0, 5.0, 10.0, 12.0, 20.0)]
    limit = limit_by_cache(moments)
    assert limit is not None
    assert limit.what == CACHE
    assert limit.mid == pytest.approx(50.0)


def test_hardly_used_kv_cache_gives_no_limit():
    assert limit_by_cache([Moment(3.0, 0.01, cache_used=0.01)] * 20) is None
    assert limit_by_cache([Moment(3.0, 0.01)] * 20) is None


def test_slot_limit_is_reported_or_inferred_from_waiting():
    assert limit_by_slots([], 32.0) == Limit(PLACES, 32.0, 32.0, 32.0)
    waited = [Moment(16.0, 0.01, waiting=3.0, cache_used=0.4)] * 5
    seen = limit_by_slots([*waited, *[Moment(4.0, 0.01, waiting=0.0)] * 50], None)
    assert seen is not None
    assert (seen.what, seen.mid) == (PLACES, 16.0)


def test_waiting_for_a_full_kv_cache_gives_no_slot_limit():
    assert limit_by_slots([Moment(16.0, 0.01, waiting=3.0, cache_used=0.97)] * 20, None) is None


def test_tightest_limit_wins_with_the_joint_interval():
    found = tightest_limit([Limit(SPEED, 8.0, 10.0, 14.0), Limit(CACHE, 7.0, 11.0, 12.0)])
    assert found == Limit(SPEED, 7.0, 10.0, 12.0)


def test_one_throttling_server_does_not_limit_the_others():
    held = [Moment(2.0, 0.01, waiting=3.0)] * 20
    assert limit_by_slots([*held, *[Moment(30.0, 0.02, waiting=0.0)] * 20], None) is None
