"""Two servers asked in turns, with a simulated clock."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from answering_server import AnsweringServer
from doubles import Quiet

from unslow import __version__
from unslow.commands._output import Progress
from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.server import Place
from unslow.commands.verify.rounds import Clock, Course, in_turns, measure_alone, one_after_the_other
from unslow.commands.verify.server import FEWEST_TOKENS, MOST_EACH, MOST_PLACES, MOST_TOKENS, MeasuredServer, extent_of
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.verification import Sample, Work
from unslow.look.requests import Target
from unslow.look.system import LookError
from unslow.think.stats.gain import FEWEST_ROUNDS
from unslow.think.stats.verification import VerifyContext, judge_verification, verify_status
from unslow.think.stats.verification_report import VerifyReport

WORK = Work(prompt_tokens=100, answer_tokens=40)
USUAL = Course(WORK, 60.0)
FAST, SLOW = 0.010, 0.015


class Simulated(MeasuredServer):
    """A party whose server lives in a simulated clock."""

    def __init__(self, port: int, system: AnsweringServer) -> None:
        place = Place(system, Snapshot(unslow_version=__version__, taken_at=""))
        super().__init__(f"http://127.0.0.1:{port}", place)
        self.system, self.opened_times = system, 0

    @contextmanager
    def open_bencher(self, progress: Progress) -> Iterator[Bencher]:
        self.opened_times += 1
        yield Bencher(self.system, Subject(), Target(self.what), progress)


def server(step_s: float, **others: object) -> AnsweringServer:
    return AnsweringServer(token_s=lambda _depth, _now: step_s, **others)


def parties(*servers: AnsweringServer) -> list[Simulated]:
    return [Simulated(number, one) for number, one in enumerate(servers, 1)]


def report_of(both: list[Simulated], work: Work = WORK) -> VerifyReport:
    return judge_verification(*(party.side(work) for party in both), VerifyContext(__version__))


def turned(both: list[Simulated], course: Course = USUAL) -> VerifyReport:
    assert in_turns(both, course, both[0].system, Quiet()) == ""
    return report_of(both, course.work)


def test_different_chat_template_is_detected_though_raw_completions_agree():
    report = turned(parties(server(SLOW, turns="<user>hi"), server(FAST, turns="[INST]hi")))
    assert (report.verdict, report.answers.verdict) == ("faster", "cannot_tell")
    assert "chat template" in report.answers.because
    assert verify_status(report) == 3
    alike = turned(parties(server(SLOW, turns="1 Jan 2026 hi"), server(FAST, turns="2 Feb 2026 hi")))
    assert alike.answers.verdict == "kept"


def test_faster_server_with_the_same_answers_is_faster():
    both = parties(server(SLOW), server(FAST))
    report = turned(both)
    assert report.verdict == "faster"
    assert report.figures[1].speedup.mid == pytest.approx(1.5, rel=0.02)
    assert report.answers.verdict == "kept"
    assert report.answers.perplexity is not None
    assert report.answers.perplexity.places > 24
    assert both[1].again == ()


def test_first_server_alternates_every_round():
    clock = server(SLOW)
    both = parties(clock, clock)
    turned(both)
    asked = [prompt for prompt in clock.prompts if len(prompt.split()) > 60][2:]  # after the warm-ups
    assert [one == other for one, other in zip(asked[::2], asked[1::2], strict=True)] == [True] * (len(asked) // 2)
    assert len(set(asked)) == len(asked) // 2
    assert {sample.round for sample in both[0].samples} == {sample.round for sample in both[1].samples}


def test_faster_server_with_worse_answers_is_answers_changed():
    report = turned(parties(server(SLOW), server(FAST, mind=2, worse=0.4)))
    assert report.verdict == "answers_changed"
    assert report.figures[0].verdict == "faster"


def test_kept_tokens_are_cached():
    system = server(SLOW)
    both = parties(system, server(SLOW))
    turned(both, Course(Work(prompt_tokens=70, kept_tokens=500, answer_tokens=16), 30.0, answers=False))
    deep = [prompt for prompt in system.prompts if len(prompt.split()) > 560]
    assert deep
    seen = [sample.request_s for sample in both[0].samples if sample.request_s]
    assert max(seen) < 0.1 + 16 * SLOW + 70 * system.prompt_token_s * 2  # 500 more would take half a second


def test_server_that_dies_ends_the_rounds_and_keeps_samples(wording):
    both = parties(server(SLOW, noise=0.3), server(FAST, noise=0.3, dice=random.Random(9)))
    both[1].system.fails = lambda now: LookError("gone") if now > 8.0 else None
    why = in_turns(both, USUAL, both[0].system, Quiet())
    wording(why, tells="http://127.0.0.1:2")
    assert len(both[1].samples) > FEWEST_ROUNDS
    assert set(both[1].failures) == {"gone"}
    sides = (party.side(WORK) for party in both)
    report = judge_verification(*sides, VerifyContext(__version__, ended=why))
    assert report.figures[0].rounds == len(both[1].samples)
    assert (report.figures[0].verdict, report.verdict) == ("faster", "broken")


def test_server_that_dies_during_questions_is_broken():
    both = parties(server(SLOW), server(FAST))
    both[1].system.fails = lambda _now: LookError("gone") if both[0].answers else None
    report = turned(both)
    assert both[1].failures == ["gone", "gone"]
    assert (report.figures[0].verdict, report.verdict) == ("faster", "broken")


def test_failed_question_is_retried_once():
    both, accidents = parties(server(SLOW), server(FAST)), [LookError("reset")]
    both[1].system.fails = lambda _now: accidents.pop() if both[0].answers and accidents else None
    report = turned(both)
    assert (both[1].failures, report.verdict) == (["reset"], "faster")
    assert len(both[1].answers) == len(both[0].answers)


def test_server_that_never_answers_is_reported(wording):
    both = parties(server(SLOW), server(FAST, fails=lambda _now: LookError("gone")))
    wording(in_turns(both, USUAL, both[0].system, Quiet()), tells="http://127.0.0.1:2")


def test_same_server_twice_is_refused():
    one = server(SLOW)
    both = [Simulated(1, one), Simulated(1, one)]
    with pytest.raises(UserError, match="same server"):
        in_turns(both, Course(WORK, 10.0), one, Quiet())


def test_every_restart_is_one_round():
    both = parties(server(SLOW), server(FAST))
    assert one_after_the_other(both, Course(WORK, 20.0), both[0].system, Quiet()) == ""
    rounds = {sample.round for sample in both[0].samples}
    assert both[0].opened_times == both[1].opened_times == len(rounds) >= FEWEST_ROUNDS
    assert len(both[0].samples) <= MOST_EACH * len(rounds)
    assert report_of(both).verdict == "faster"
    assert both[0].again == both[0].answers
    assert both[1].answers == both[0].answers


def test_single_side_is_measured_with_its_answers():
    [party] = parties(server(SLOW))
    party.is_here = False
    assert measure_alone(party, Course(WORK, 30.0), party.system, Quiet()) == ""
    side = party.side(WORK)
    assert len(side.samples) >= FEWEST_ROUNDS
    assert side.again == side.answers
    assert side.scored is not None
    assert (side.compared_tokens, side.places, len(side.answers)) == extent_of(party, 10.0)[:3]


def test_slow_server_is_asked_for_fewer_tokens():
    [party] = parties(server(SLOW))
    assert extent_of(party, 40.0).tokens == FEWEST_TOKENS
    party.samples = [Sample(round=1, decode_tokens_per_s=2.0)]
    assert extent_of(party, 40.0).tokens == FEWEST_TOKENS
    party.samples = [Sample(round=1, decode_tokens_per_s=2000.0)]
    assert extent_of(party, 40.0)[:2] == (MOST_TOKENS, MOST_PLACES)


def test_stopped_clock_does_not_count():
    system = server(SLOW)
    clock = Clock(system, 10.0, Quiet())
    with clock.pause():
        system.sleep(100.0)
    assert clock.has_time(50)
    system.sleep(9.0)
    assert clock.has_time(FEWEST_ROUNDS - 1)
    assert not clock.has_time(FEWEST_ROUNDS)
