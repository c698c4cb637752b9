"""Fifty shuffled, truncated and contradictory machines for each cause: no crash, no claim without evidence, no dice."""

import math

import pytest
from all_firing import FIRING
from scrambled import variants

from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import _answer, judge

pytestmark = pytest.mark.no_cover  # thousands of judgements tell nothing more of which lines are tested

IDS = list(all_causes())
AGAIN = 4
"""Every so-manieth report is made twice: of each kind some, as there are three kinds in turn."""
OTHERS = [fires() for fires in FIRING.values()]


def scrambled(name):
    return variants(FIRING[name](), OTHERS, seed=name)


@pytest.mark.parametrize("name", IDS)
def test_its_answer_is_sound_and_always_the_same(name):
    cause, whole = all_causes()[name], _answer(CaseView(FIRING[name]()), all_causes()[name])
    for kind, case in scrambled(name):
        answer = _answer(CaseView(case), cause)
        assert answer == _answer(CaseView(case), cause), kind
        assert type(answer) in (Found, Absent, CannotTell), kind
        if kind == "shuffled":
            assert type(answer) is type(whole), "the order in which a list was read decides nothing"
        if isinstance(answer, Found):
            assert answer.because
            assert answer.evidence, kind
            assert all(e.fact and e.source for e in answer.evidence), (kind, answer.evidence)
        elif isinstance(answer, CannotTell):
            assert answer.missing, kind
            assert answer.how_to_get, (kind, answer)
        else:
            assert answer.because, kind


@pytest.mark.parametrize("name", IDS)
def test_the_judge_is_sound_and_always_says_the_same(name):
    for number, (kind, case) in enumerate(scrambled(name)):
        report = judge(CaseView(case))
        assert number % AGAIN or report == judge(CaseView(case)), kind
        assert report.verdict in ("slow", "normal", "failed", "cannot_tell")
        assert report.summary
        assert all(f.evidence and 0 < f.confidence <= 1 for f in report.findings), kind
        if report.verdict == "normal":
            assert not report.findings
        seconds = [b.seconds for b in report.budget] + [f.cost.seconds for f in report.findings if f.cost]
        assert all(math.isfinite(s) and s >= 0 for s in seconds), kind
        named = [f.cause for f in report.findings]
        assert len(named) == len(set(named))
        assert set(named).isdisjoint(c.cause for c in report.cannot_tell)
