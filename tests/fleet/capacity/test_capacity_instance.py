import pytest
from tests.fleet.capacity.capacity_cases import case, like, moments

from unslow.fleet.capacity.limits import CACHE, FIRST, PLACES, SPEED, UNSEEN
from unslow.fleet.capacity.report import Goal
from unslow.fleet.capacity.users import served

FIFTY, TWENTY = Goal(tokens_per_s=50.0), Goal(tokens_per_s=20.0)


def test_inside_of_what_was_seen_it_is_measured():
    found = served(like(moments(1, 64)), FIFTY)
    assert (found.basis, found.limit.what) == ("measured", SPEED)
    assert found.limit.mid == pytest.approx(13.0, abs=0.7)  # 7 ms and 1 ms each are 20 ms at 13
    assert found.limit.low < found.limit.mid < found.limit.high
    assert found.users(4).mid == 4 * int(found.limit.mid + 0.1)


def test_beyond_it_is_simulated_and_says_how_far(wording):
    found = served(like(moments(1, 24)), TWENTY)
    assert found.basis == "simulated"
    assert found.limit.mid == pytest.approx(43.0, rel=0.06)
    assert found.farther == pytest.approx(found.limit.mid / found.gaps.last)
    wording(found.because, tells="24")
    assert "physics" not in found.because


def test_the_farther_the_wider():
    near, far = served(like(moments(1, 40)), TWENTY).limit, served(like(moments(1, 14)), TWENTY).limit
    assert far.high / far.low > near.high / near.low


def test_physics_joins_where_it_knows_the_machine():
    assert "and by physics" in served(like(moments(1, 24), case=case()), TWENTY).because
    assert "physics" not in served(like(moments(1, 24), case=case()), TWENTY, by_physics=False).because


def test_cache_places_and_first_token_end_it_sooner():
    assert served(like(moments(1, 24, cache=1 / 30)), TWENTY).limit.what == CACHE
    found = served(like(moments(1, 24), places=16.0), TWENTY)
    assert (found.limit.what, found.limit.mid, found.basis) == (PLACES, 16.0, "measured")
    found = served(like(moments(1, 24, first=0.02)), Goal(tokens_per_s=20.0, first_token_s=0.3))
    assert (found.limit.what, found.basis) == (FIRST, "measured")
    assert found.limit.mid == pytest.approx(10.0, abs=0.6)


def test_a_full_cache_beyond_says_what_it_rests_on(wording):
    found = served(like(moments(1, 24, cache=1 / 30)), TWENTY)
    assert found.basis == "simulated"
    wording(found.because)


def test_a_first_token_that_nobody_tells_is_not_held_against_the_goal_and_that_is_said(wording):
    found = served(like(moments(1, 64)), Goal(tokens_per_s=50.0, first_token_s=1.0))
    assert found.limit.what == SPEED
    wording(found.notes[0])
    alone = served(like(moments(1, 64)), Goal(first_token_s=1.0))
    assert (alone.basis, alone.limit) == ("cannot_tell", None)
    assert "first token" in alone.because


def test_a_goal_of_the_first_token_alone():
    found = served(like(moments(1, 24, first=0.02)), Goal(first_token_s=0.3))
    assert (found.limit.what, found.basis) == (FIRST, "measured")


def test_one_load_can_not_tell_but_says_what_holds_at_least(wording):
    found = served(like(moments(15, 17)), TWENTY)
    assert (found.basis, found.limit, found.users(4)) == ("cannot_tell", None, None)
    wording(found.because, tells="17")
    assert " at least" in found.because


def test_one_load_that_misses_the_goal_tells_nothing_of_fewer_but_physics_does(wording):
    found = served(like(moments(31, 33)), FIFTY)
    assert (found.basis, found.limit) == ("cannot_tell", None)
    wording(found.because)
    known = served(like(moments(31, 33, each_s=0.0005), case=case()), FIFTY)
    assert known.basis == "simulated"
    assert 1 < known.limit.mid < 31


def test_loads_that_miss_the_goal_are_simulated_downwards():
    found = served(like(moments(30, 64)), FIFTY)
    assert found.basis == "simulated"
    assert found.limit.mid == pytest.approx(13.0, rel=0.15)
    assert "never seen" in found.because


def test_a_goal_that_even_one_request_misses_is_measured_as_nobody():
    found = served(like(moments(0.9, 16, start_s=0.1)), FIFTY)
    assert (found.basis, found.users(4).mid) == ("measured", 0)


def test_what_nothing_seen_ends_is_cut_off(wording):
    found = served(like(moments(1, 8, each_s=0.00001)), TWENTY)
    assert found.limit.what == UNSEEN
    wording(found.because, tells="4.0 times")


def test_without_moments_physics_alone():
    found = served(like(case=case()), FIFTY)
    assert found.basis == "simulated"
    assert "by physics alone" in found.because
    assert 8 < found.limit.mid < 512
    assert found.limit.low < found.limit.mid < found.limit.high
    with_first = served(like(case=case()), Goal(tokens_per_s=50.0, first_token_s=1.0))
    assert "not measured" in with_first.notes[0]


def test_without_moments_and_physics_it_can_not_be_told(wording):
    wording(served(like(), FIFTY).because)
    unknown = served(like(case=case(gpus=1, name="a card that nobody knows")), FIFTY)
    assert (unknown.basis, unknown.limit) == ("cannot_tell", None)
    told = served(like(without="it tells no requests at once over time"), FIFTY)
    wording(told.because)
