import pytest
from tests.fleet.capacity.capacity_cases import case, like, moments

from unslow.fleet.capacity.limits import CACHE, FIRST, PLACES, SPEED, UNSEEN
from unslow.fleet.capacity.report import Goal
from unslow.fleet.capacity.users import instance_capacity

FIFTY, TWENTY = Goal(tokens_per_s=50.0), Goal(tokens_per_s=20.0)


def test_capacity_inside_the_measured_range_is_measured():
    found = instance_capacity(like(moments(1, 64)), FIFTY)
    assert (found.basis, found.limit.what) == ("measured", SPEED)
    assert found.limit.mid == pytest.approx(13.0, abs=0.7)  # 7 ms and 1 ms each are 20 ms at 13
    assert found.limit.low < found.limit.mid < found.limit.high
    assert found.users(4).mid == 4 * int(found.limit.mid + 0.1)


def test_capacity_beyond_the_measured_range_is_simulated_with_its_factor(wording):
    found = instance_capacity(like(moments(1, 24)), TWENTY)
    assert found.basis == "simulated"
    assert found.limit.mid == pytest.approx(43.0, rel=0.06)
    assert found.farther == pytest.approx(found.limit.mid / found.gaps.last)
    wording(found.because, tells="24")
    assert "physics" not in found.because


def test_interval_widens_with_extrapolation_distance():
    near, far = (
        instance_capacity(like(moments(1, 40)), TWENTY).limit,
        instance_capacity(like(moments(1, 14)), TWENTY).limit,
    )
    assert far.high / far.low > near.high / near.low


def test_known_machine_adds_physics_to_the_extrapolation():
    assert "and physics" in instance_capacity(like(moments(1, 24), case=case()), TWENTY).because
    assert "physics" not in instance_capacity(like(moments(1, 24), case=case()), TWENTY, by_physics=False).because


def test_kv_cache_slots_or_first_token_can_be_the_limit():
    assert instance_capacity(like(moments(1, 24, cache=1 / 30)), TWENTY).limit.what == CACHE
    found = instance_capacity(like(moments(1, 24), places=16.0), TWENTY)
    assert (found.limit.what, found.limit.mid, found.basis) == (PLACES, 16.0, "measured")
    found = instance_capacity(like(moments(1, 24, first=0.02)), Goal(tokens_per_s=20.0, first_token_s=0.3))
    assert (found.limit.what, found.basis) == (FIRST, "measured")
    assert found.limit.mid == pytest.approx(10.0, abs=0.6)


def test_extrapolated_kv_cache_limit_states_its_assumption(wording):
    found = instance_capacity(like(moments(1, 24, cache=1 / 30)), TWENTY)
    assert found.basis == "simulated"
    wording(found.because)


def test_unreported_first_token_is_skipped_and_noted(wording):
    found = instance_capacity(like(moments(1, 64)), Goal(tokens_per_s=50.0, first_token_s=1.0))
    assert found.limit.what == SPEED
    wording(found.notes[0])
    alone = instance_capacity(like(moments(1, 64)), Goal(first_token_s=1.0))
    assert (alone.basis, alone.limit) == ("cannot_tell", None)
    assert "first token" in alone.because


def test_goal_may_be_first_token_only():
    found = instance_capacity(like(moments(1, 24, first=0.02)), Goal(first_token_s=0.3))
    assert (found.limit.what, found.basis) == (FIRST, "measured")


def test_single_load_is_undetermined_with_a_lower_bound(wording):
    found = instance_capacity(like(moments(15, 17)), TWENTY)
    assert (found.basis, found.limit, found.users(4)) == ("cannot_tell", None, None)
    wording(found.because, tells="17")
    assert " at least" in found.because


def test_single_load_missing_the_goal_needs_physics(wording):
    found = instance_capacity(like(moments(31, 33)), FIFTY)
    assert (found.basis, found.limit) == ("cannot_tell", None)
    wording(found.because)
    known = instance_capacity(like(moments(31, 33, each_s=0.0005), case=case()), FIFTY)
    assert known.basis == "simulated"
    assert 1 < known.limit.mid < 31


def test_loads_missing_the_goal_are_extrapolated_downwards():
    found = instance_capacity(like(moments(30, 64)), FIFTY)
    assert found.basis == "simulated"
    assert found.limit.mid == pytest.approx(13.0, rel=0.15)
    assert "never measured" in found.because


def test_goal_missed_by_one_request_gives_zero_users():
    found = instance_capacity(like(moments(0.9, 16, start_s=0.1)), FIFTY)
    assert (found.basis, found.users(4).mid) == ("measured", 0)


def test_capacity_without_a_limit_is_capped(wording):
    found = instance_capacity(like(moments(1, 8, each_s=0.00001)), TWENTY)
    assert found.limit.what == UNSEEN
    wording(found.because, tells="4.0 times")


def test_without_measurements_capacity_comes_from_physics():
    found = instance_capacity(like(case=case()), FIFTY)
    assert found.basis == "simulated"
    assert "from physics alone" in found.because
    assert 8 < found.limit.mid < 512
    assert found.limit.low < found.limit.mid < found.limit.high
    with_first = instance_capacity(like(case=case()), Goal(tokens_per_s=50.0, first_token_s=1.0))
    assert "not measured" in with_first.notes[0]


def test_without_measurements_and_physics_capacity_is_undetermined(wording):
    wording(instance_capacity(like(), FIFTY).because)
    unknown = instance_capacity(like(case=case(gpus=1, name="a card that nobody knows")), FIFTY)
    assert (unknown.basis, unknown.limit) == ("cannot_tell", None)
    told = instance_capacity(like(without="it tells no requests at once over time"), FIFTY)
    wording(told.because)
