"""A trial without samplers beside a speed that was timed before."""

import pytest

from unslow.facts.run import Run, TrialInTurns
from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED, measured_fact
from unslow.think.case.speed import Turns
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Found
from unslow.think.causes.sampling_on_cpu import CAUSE


def case(before: float | None, as_set: float, plain: float) -> Case:
    tried = TrialInTurns(changed="no samplers", as_set_tokens_per_s=as_set, changed_tokens_per_s=plain)
    speed = measured_fact(before, "timed") if before else NOT_LOOKED
    return Case(run=Run(decode_tokens_per_s=speed, plain_sampling=measured_fact(tried, "in turns")))


def test_nobody_tried():
    assert CaseView(Case()).speed.sampling_turns is None


@pytest.mark.parametrize(
    ("before", "as_set", "plain", "turns"),
    [(None, 20.0, 27.0, (20.0, 27.0)), (27.0, 20.0, 27.0, (27.0, 27.0)), (15.0, 20.0, 27.0, (20.0, 27.0))],
)
def test_the_faster_of_two_speeds_as_set_counts(before, as_set, plain, turns):
    assert CaseView(case(before, as_set, plain)).speed.sampling_turns.value == Turns(*turns)


def test_answers_that_scatter_blame_no_sampler():
    assert isinstance(CAUSE.check(CaseView(case(26.6, 19.6, 26.6))), Absent)
    assert isinstance(CAUSE.check(CaseView(case(20.0, 19.6, 26.6))), Found)
