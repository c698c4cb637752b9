import pytest
from tests.fleet.capacity.capacity_cases import case, like, moments

from unslow.facts.values import reported_fact
from unslow.fleet.capacity.limits import UNSEEN, Load
from unslow.fleet.capacity.report import Goal
from unslow.fleet.capacity.users import cache_growth, row_of, rows_of, with_twice_the_gpus

FIFTY = Goal(tokens_per_s=50.0)


def test_one_more_instance_adds_the_users_of_one_instance(wording):
    row = row_of(like(moments(1, 64)), FIFTY)
    wording(row.next[0].what)
    assert (row.next[0].gpus, row.next[0].basis) == (1, "measured")
    assert row.next[0].users.mid * 4 == row.users_at_goal.mid


def test_doubling_gpus_shortens_a_step_by_less_than_half(wording):
    row = row_of(like(moments(1, 64), case=case()), FIFTY)
    step = row.next[1]
    wording(step.what)
    assert (step.gpus, step.basis) == (1, "simulated")
    assert 0 < step.users.mid < 2 * row.next[0].users.mid
    assert step.users.low < step.users.mid < step.users.high
    assert "tensor parallel" in step.because


def test_doubling_gpus_more_than_doubles_kv_cache_capacity():
    row = row_of(like(moments(1, 30, each_s=0.0001, cache=1 / 32), case=case()), FIFTY)
    assert row.limit == "KV cache"
    assert row.next[1].users.mid == pytest.approx(32 * (cache_growth(case()) - 1), abs=2)
    assert cache_growth(case()) > 2.0
    assert cache_growth(case().replace(model=type(case().model)())) == 2.0


def test_doubling_gpus_needs_tensor_parallel_on_equal_gpus():
    assert with_twice_the_gpus(case()).runtime.placement.tensor_parallel.need() == 2
    assert len(with_twice_the_gpus(case(gpus=2)).machine.gpus.need()) == 4
    assert with_twice_the_gpus(case(gpus=8)) is None
    assert with_twice_the_gpus(case(runtime="llama.cpp")) is None
    odd = case()
    runtime = odd.runtime.with_facts(tensor_parallel=reported_fact(2, "t"))
    assert with_twice_the_gpus(odd.replace(runtime=runtime)) is None


def test_slot_limit_suggests_more_slots_without_gpus(wording):
    row = row_of(like(moments(1, 64), places=4.0), FIFTY)
    step = row.next[-1]
    assert step.gpus == 0
    wording(step.what)
    assert step.users.mid == pytest.approx(4 * (13 - 4), abs=4)
    wording(step.because)
    slow = row_of(like(moments(1, 64), places=40.0), FIFTY)
    assert all(step.gpus for step in slow.next)


def test_doubling_gpus_gains_nothing_when_slots_or_nothing_limit():
    unseen = row_of(like(moments(1, 8, each_s=0.00001), case=case()), FIFTY)
    assert (unseen.limit, len(unseen.next)) == (UNSEEN, 1)
    few = row_of(like(moments(1, 64), places=4.0, case=case()), FIFTY)
    assert few.next[1].users.mid == 0
    assert few.next[1].because.endswith("slots")
    no_physics = row_of(like(moments(1, 64), case=case(name="a card that nobody knows")), FIFTY)
    assert len(no_physics.next) == 1


def test_capacity_from_physics_has_next_steps():
    assert [step.basis for step in row_of(like(case=case()), FIFTY).next] == ["simulated", "simulated"]


def test_undetermined_capacity_has_no_next_steps():
    assert row_of(like(), FIFTY).next == ()


def test_row_carries_the_facts_of_its_group(wording):
    row = row_of(like(moments(1, 64), load=Load(30.0, 40.0, 1.8)), FIFTY)
    assert (row.instances, row.gpus, row.users_now, row.users_peak) == (4, 4, 30.0, 40.0)
    wording(row.notes[0], tells="1.8")
    assert row_of(like(moments(1, 64), gpus_each=None), FIFTY).gpus is None


def test_peak_above_the_goal_notes_the_instances_needed(wording):
    crowded = row_of(like(moments(1, 64), load=Load(60.0, 70.0)), FIFTY)
    assert crowded.users_at_goal.mid < 70
    wording(crowded.notes[0])
    assert row_of(like(moments(1, 64)), FIFTY).notes == ()


def test_simulated_points_are_marked_and_measured_have_samples():
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


def test_busiest_group_is_first_and_physics_runs_for_a_few_groups(monkeypatch):
    monkeypatch.setattr("unslow.fleet.capacity.users.MOST_GROUPS_BY_PHYSICS", 1)
    groups = [
        like(case=case(), model="quiet", load=Load(1.0, 2.0)),
        like(case=case(), model="busy", load=Load(9.0, 9.0)),
    ]
    rows = rows_of(groups, FIFTY)
    assert [(row.model, row.basis) for row in rows] == [("busy", "simulated"), ("quiet", "cannot_tell")]
