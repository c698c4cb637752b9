"""A trial without samplers beside a speed that was timed before."""

import pytest

from unslow.facts.run import Run, Tried
from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED, measured
from unslow.think.case.work import Turns, sampling_turns
from unslow.think.causes._cause import Absent, Found
from unslow.think.causes.sampling_on_cpu import check


def case(before: float | None, as_set: float, plain: float) -> Case:
    tried = Tried(changed="no samplers", as_set_tokens_per_s=as_set, changed_tokens_per_s=plain)
    speed = measured(before, "timed") if before else NOT_LOOKED
    return Case(run=Run(decode_tokens_per_s=speed, plain_sampling=measured(tried, "in turns")))


def test_nobody_tried():
    assert sampling_turns(Case()) is None


@pytest.mark.parametrize(
    ("before", "as_set", "plain", "turns"),
    [(None, 20.0, 27.0, (20.0, 27.0)), (27.0, 20.0, 27.0, (27.0, 27.0)), (15.0, 20.0, 27.0, (20.0, 27.0))],
)
def test_the_faster_of_two_speeds_as_set_counts(before, as_set, plain, turns):
    assert sampling_turns(case(before, as_set, plain)).value == Turns(*turns)


def test_answers_that_scatter_blame_no_sampler():
    assert isinstance(check(case(26.6, 19.6, 26.6)), Absent)
    assert isinstance(check(case(20.0, 19.6, 26.6)), Found)
