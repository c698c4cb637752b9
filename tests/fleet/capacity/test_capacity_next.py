import msgspec
import pytest
from tests.fleet.capacity.capacity_cases import case, like, moments

from unslow.facts.values import reported
from unslow.fleet.capacity.limits import UNSEEN, Load
from unslow.fleet.capacity.report import Goal
from unslow.fleet.capacity.users import more_cache, over_twice_as_many, row_of, rows_of

FIFTY = Goal(tokens_per_s=50.0)


def test_one_more_instance_serves_what_each_of_the_others_does(wording):
    row = row_of(like(moments(1, 64)), FIFTY)
    wording(row.next[0].what)
    assert (row.next[0].gpus, row.next[0].basis) == (1, "measured")
    assert row.next[0].users.mid * 4 == row.users_at_goal.mid


def test_twice_the_gpus_make_a_step_shorter_by_physics_and_less_than_half(wording):
    row = row_of(like(moments(1, 64), case=case()), FIFTY)
    step = row.next[1]
    wording(step.what)
    assert (step.gpus, step.basis) == (1, "simulated")
    assert 0 < step.users.mid < 2 * row.next[0].users.mid
    assert step.users.low < step.users.mid < step.users.high
    assert "tensor parallel" in step.because


def test_twice_the_gpus_help_a_full_cache_more_than_twofold():
    row = row_of(like(moments(1, 30, each_s=0.0001, cache=1 / 32), case=case()), FIFTY)
    assert row.limit == "KV cache"
    assert row.next[1].users.mid == pytest.approx(32 * (more_cache(case()) - 1), abs=2)
    assert more_cache(case()) > 2.0
    assert more_cache(msgspec.structs.replace(case(), model=type(case().model)())) == 2.0


def test_only_engines_that_cut_layers_over_like_gpus_are_cut():
    assert over_twice_as_many(case()).runtime.tensor_parallel.need() == 2
    assert len(over_twice_as_many(case(gpus=2)).machine.gpus.need()) == 4
    assert over_twice_as_many(case(gpus=8)) is None
    assert over_twice_as_many(case(runtime="llama.cpp")) is None
    odd = case()
    runtime = msgspec.structs.replace(odd.runtime, tensor_parallel=reported(2, "t"))
    assert over_twice_as_many(msgspec.structs.replace(odd, runtime=runtime)) is None


def test_where_places_end_it_a_setting_is_worth_more_than_a_gpu(wording):
    row = row_of(like(moments(1, 64), places=4.0), FIFTY)
    step = row.next[-1]
    assert step.gpus == 0
    wording(step.what)
    assert step.users.mid == pytest.approx(4 * (13 - 4), abs=4)
    wording(step.because)
    slow = row_of(like(moments(1, 64), places=40.0), FIFTY)
    assert all(step.gpus for step in slow.next)


def test_where_nothing_ends_it_or_places_do_twice_the_gpus_are_no_answer():
    unseen = row_of(like(moments(1, 8, each_s=0.00001), case=case()), FIFTY)
    assert (unseen.limit, len(unseen.next)) == (UNSEEN, 1)
    few = row_of(like(moments(1, 64), places=4.0, case=case()), FIFTY)
    assert few.next[1].users.mid == 0
    assert few.next[1].because.endswith("places")
    no_physics = row_of(like(moments(1, 64), case=case(name="a card that nobody knows")), FIFTY)
    assert len(no_physics.next) == 1


def test_by_physics_alone_there_is_a_next_too():
    assert [step.basis for step in row_of(like(case=case()), FIFTY).next] == ["simulated", "simulated"]


def test_what_can_not_be_told_has_no_next():
    assert row_of(like(), FIFTY).next == ()


def test_a_row_tells_of_its_group(wording):
    row = row_of(like(moments(1, 64), load=Load(30.0, 40.0, 1.8)), FIFTY)
    assert (row.instances, row.gpus, row.users_now, row.users_peak) == (4, 4, 30.0, 40.0)
    wording(row.notes[0], tells="1.8")
    assert row_of(like(moments(1, 64), gpus_each=None), FIFTY).gpus is None


def test_a_peak_above_the_goal_says_how_many_instances_it_needs(wording):
    crowded = row_of(like(moments(1, 64), load=Load(60.0, 70.0)), FIFTY)
    assert crowded.users_at_goal.mid < 70
    wording(crowded.notes[0])
    assert row_of(like(moments(1, 64)), FIFTY).notes == ()


def test_points_beyond_are_marked_and_those_measured_have_their_number():
    row = row_of(like(moments(1, 24, first=0.02)), Goal(tokens_per_s=20.0))
    measured = [point for point in row.points if point.basis == "measured"]
    beyond = [point for point in row.points if point.basis == "simulated"]
    assert sum(point.samples for point in measured) == pytest.approx(300, abs=10)
    assert beyond
    assert all(point.samples == 0 and point.requests > measured[-1].requests for point in beyond)
    assert all(point.first_token_s.low <= point.first_token_s.mid <= point.first_token_s.high for point in row.points)
    assert beyond[-1].tokens_per_s.mid == pytest.approx(20.0, rel=0.01)
    physics = row_of(like(case=case()), FIFTY)
    assert {point.basis for point in physics.points} == {"simulated"}
    assert [point.requests for point in physics.points][:3] == [1.0, 2.0, 4.0]


def test_the_busiest_group_comes_first_and_physics_is_asked_for_so_many(monkeypatch):
    monkeypatch.setattr("unslow.fleet.capacity.users.MOST_GROUPS_BY_PHYSICS", 1)
    groups = [
        like(case=case(), model="quiet", load=Load(1.0, 2.0)),
        like(case=case(), model="busy", load=Load(9.0, 9.0)),
    ]
    rows = list(rows_of(groups, FIFTY))
    assert [(row.model, row.basis) for row in rows] == [("busy", "simulated"), ("quiet", "cannot_tell")]
