"""A failing server is not faster, and answers that were not compared are not the same."""

import msgspec
import pytest

from unslow.facts.verification import Sample, Side
from unslow.think.stats.verification import VerifyContext, judge_verification, verify_status

ANSWERS = tuple(f"Answer {n} is fine." for n in range(12))
TOLD = VerifyContext("1.0")


def side(rate: float, failed: int = 0, rounds: int = 7, answers: tuple[str, ...] = ANSWERS) -> Side:
    samples = tuple(Sample(round=n, request_s=(1 + n % 3 / 500) / rate) for n in range(rounds))
    return Side(what="x", samples=samples, failures=("reset",) * failed, answers=answers, again=answers)


@pytest.mark.parametrize(
    ("before", "after", "verdict", "status"),
    [(0, 8, "broken", 1), (8, 0, "cannot_tell", 3), (8, 8, "cannot_tell", 3), (2, 2, "faster", 0)],
)
def test_many_failures_are_not_a_speedup(before, after, verdict, status, wording):
    report = judge_verification(side(10.0, before), side(20.0, after), TOLD)
    assert (report.verdict, verify_status(report)) == (verdict, status)
    wording(report.because, tells=() if verdict == "faster" else ("8 of 15", "reset"))


def test_few_failures_of_many_requests_are_tolerated():
    assert judge_verification(side(10.0), side(20.0, 4, rounds=100), TOLD).verdict == "faster"
    assert judge_verification(side(10.0), side(20.0, 6, rounds=100), TOLD).verdict == "broken"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(0, 1, "broken"), (1, 2, "broken"), (2, 1, "cannot_tell"), (1, 1, "cannot_tell"), (0, 0, "cannot_tell")],
)
def test_early_end_is_blamed_on_the_side_that_failed(before, after, verdict, wording):
    report = judge_verification(side(10.0, before), side(20.0, after), TOLD._replace(ended="x did not answer"))
    assert report.verdict == verdict
    assert verify_status(report) != 0
    wording(report.notes[-1])


def test_early_end_at_different_times_blames_the_second_side():
    told = TOLD._replace(way="apart", ended="3 requests in a row failed")
    assert judge_verification(side(10.0, 2), side(20.0), told).verdict == "broken"


def test_missing_answers_exit_3_unless_disabled(wording):
    report = judge_verification(side(10.0), side(20.0, answers=()), TOLD)
    assert (report.verdict, verify_status(report)) == ("faster", 3)
    wording(report.because)
    alone = judge_verification(side(10.0), side(20.0, answers=()), TOLD._replace(answers=False))
    assert (alone.verdict, verify_status(alone), alone.answers.wanted) == ("faster", 0, False)
    assert verify_status(judge_verification(side(20.0), side(10.0, answers=()), TOLD)) == 1


def test_server_that_dies_during_questions_is_broken():
    dead = msgspec.structs.replace(side(20.0, 2, answers=()), compared_tokens=12)
    assert judge_verification(side(10.0), dead, TOLD).verdict == "broken"
    assert judge_verification(dead, side(30.0), TOLD).verdict == "cannot_tell"


def unstarted(rate: float) -> Side:
    return msgspec.structs.replace(side(rate), starts_s=(1.0,) * 7, failed_starts=("no memory", "no memory"))


def test_changed_server_that_does_not_restart_is_broken(wording):
    told = TOLD._replace(ended="x did not start again in round 8: no memory")
    report = judge_verification(side(10.0), unstarted(20.0), told)
    assert (report.verdict, verify_status(report)) == ("broken", 1)
    wording(report.because)
    wording(report.notes)
    report = judge_verification(unstarted(10.0), side(20.0), told)
    assert (report.verdict, verify_status(report)) == ("faster", 0)
    wording(report.notes[0])


def test_time_beyond_the_limit_is_noted(wording):
    before, after = (msgspec.structs.replace(side(10.0, rounds=2), starts_s=(40.0, 41.0)) for _ in range(2))
    told = TOLD._replace(way="one_after_the_other", asked_s=100.0, took_s=180.0)
    wording(judge_verification(before, after, told).notes, tells=("180 s", "100", "162 s"))
    assert judge_verification(side(10.0), side(20.0), TOLD._replace(asked_s=100.0, took_s=120.0)).notes == ()
    apart = judge_verification(before, after, told._replace(way="apart"))
    wording(apart.notes[-2], tells=("180 s", "100"))
