"""Servers that start slowly or do not restart, with a simulated clock: the time limit is kept, nothing is lost."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from answering_server import AnsweringServer
from doubles import Quiet

from unslow import __version__
from unslow.catalog.quality import sample_openings
from unslow.commands._output import Progress
from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.server import Place
from unslow.commands.verify.rounds import STRETCHED, Clock, Course, in_turns, one_after_the_other
from unslow.commands.verify.server import (
    FEWEST_PLACES,
    FEWEST_QUESTIONS,
    LONGEST_S,
    SHORTEST_S,
    MeasuredServer,
    extent_of,
    spread_questions,
)
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.verification import Sample, Work
from unslow.look.requests import Target
from unslow.show.verify import render_verify
from unslow.think.stats.verification import VerifyContext, judge_verification, verify_status
from unslow.think.stats.verification_report import VerifyReport

WORK = Work(prompt_tokens=100, answer_tokens=40)
REQUEST_S = 2.0


class Starting(MeasuredServer):
    """A party that takes long to start, and after some starts does not start any more."""

    def __init__(self, port: int, server: AnsweringServer, start_s: float, starts: int = 1000) -> None:
        place = Place(server, Snapshot(unslow_version=__version__, taken_at=""))
        super().__init__(f"http://127.0.0.1:{port}", place)
        self.server, self.start_s, self.left = server, start_s, starts

    @contextmanager
    def open_bencher(self, progress: Progress) -> Iterator[Bencher]:
        self.server.sleep(self.start_s)
        self.left -= 1
        if self.left < 0:
            raise UserError("the server ended before it answered: no memory")
        self.starts_s.append(self.start_s)
        yield Bencher(self.server, Subject(), Target(self.what), progress)


def parties(start_s: float, starts: tuple[int, int] = (1000, 1000)) -> list[Starting]:
    """Two of them on one clock, the second a little faster."""
    server = AnsweringServer(token_s=lambda _depth, _now: REQUEST_S / 50, noise=0.02)
    return [Starting(number, server, start_s, left) for number, left in enumerate(starts, 1)]


def measured(both: list[Starting], course: Course, way=one_after_the_other) -> tuple[float, VerifyReport]:
    system = both[0].server
    start = system.clock()
    why = way(both, course, system, Quiet())
    took = system.clock() - start
    told = VerifyContext(__version__, ended=why, answers=course.answers, asked_s=course.seconds, took_s=took)
    return took, judge_verification(both[0].side(WORK), both[1].side(WORK), told._replace(way="one_after_the_other"))


@pytest.mark.parametrize("start_s", [2.0, 10.0, 30.0, 100.0])
def test_start_times_count_towards_the_time_limit(start_s):
    course = Course(WORK, 120.0, answers=False)
    both = parties(start_s)
    took, report = measured(both, course)
    one_round = took / len(both[0].starts_s)
    assert took <= max(STRETCHED * course.seconds, one_round) + 1e-6
    assert len(both[0].starts_s) >= (3 if start_s < 20 else 1)
    assert report.before.starts_s == tuple(both[0].starts_s)


def test_too_few_rounds_suggest_a_longer_time():
    took, report = measured(parties(100.0), Course(WORK, 120.0, answers=False))
    assert report.verdict == "cannot_tell"
    late, few = report.notes
    assert late == f"it took {took:.0f} s instead of 120 s: 1 round, 200 s of that for 2 starts"
    assert few.startswith("there was only time for 1 round, 200 s of that for 2 starts: use --seconds ")
    assert int(few.split()[-3]) >= 3 * took
    shown = render_verify(report, "terminal", width=100, color=False)
    assert "1 round in " in shown
    assert "for 2 starts" in shown


def test_starts_of_concurrent_servers_count_too():
    both = parties(30.0)
    both[1].server = AnsweringServer(token_s=lambda _depth, _now: REQUEST_S / 50, noise=0.02)
    start = both[0].server.clock()
    assert in_turns(both, Course(WORK, 60.0, answers=False), both[0].server, Quiet()) == ""
    assert both[0].server.clock() - start <= 60.0 * STRETCHED
    assert len(both[0].samples) >= 3


def test_clock_starts_no_round_that_would_end_late():
    [party, _] = parties(0.0)
    clock = Clock(party.server, 10.0, Quiet())
    assert clock.has_time(0)
    party.server.sleep(8.0)
    assert not clock.has_time(1)  # the next would end at 16
    assert clock.has_time(2)  # at 12: the first few may be that late
    assert not clock.has_time(3)
    assert clock.has_time(4)


def test_overlong_answers_leave_less_time_for_rounds():
    [party, _] = parties(0.0)
    clock = Clock(party.server, 10.0, Quiet(), aside_s=5.0)
    with clock.pause():
        party.server.sleep(4.0)
    party.server.sleep(2.0)
    assert clock.has_time(3)
    with clock.pause():
        party.server.sleep(9.0)  # of which one second is left
    assert not clock.has_time(3)
    assert clock.has_time(2)


@pytest.mark.parametrize("who", [0, 1])
def test_server_that_does_not_restart_keeps_its_rounds(who, wording):
    starts = (3, 1000) if who == 0 else (1000, 3)
    both = parties(1.0, starts)
    _, report = measured(both, Course(WORK, 600.0, answers=False))
    name = ("before", "after")[who]
    assert report.figures[0].rounds == 3
    assert both[who].failed_starts == ["the server ended before it answered: no memory"] * 2
    wording(report.notes, tells=str(name))
    if who == 0:  # the change is not to blame: the rounds that there are decide
        assert report.verdict == report.figures[0].verdict
        assert verify_status(report) in (0, 1, 3)
    else:
        assert (report.verdict, verify_status(report)) == ("broken", 1)
        wording(report.because)


def test_server_that_never_starts_is_a_user_error():
    both = parties(1.0, (1000, 0))
    with pytest.raises(UserError, match="no memory"):
        measured(both, Course(WORK, 60.0, answers=False))


def test_failed_start_is_retried_once():
    both = parties(1.0)
    both[1].left = 1
    opened = both[1].open_bencher

    @contextmanager
    def once_not(progress: Progress) -> Iterator[Bencher]:
        if both[1].left == 0 and not both[1].failed_starts:
            raise UserError("the port is taken")
        both[1].left = 1
        with opened(progress) as bencher:
            yield bencher

    both[1].open_bencher = once_not
    _, report = measured(both, Course(WORK, 60.0, answers=False))
    assert both[1].failed_starts == ["the port is taken"]
    assert report.verdict == report.figures[0].verdict
    assert report.figures[0].rounds > 3


def test_slow_server_gets_fewer_questions():
    [party, _] = parties(0.0)
    party.samples = [Sample(round=1, decode_tokens_per_s=2.0)]
    extent = extent_of(party, 40.0)
    assert (extent.questions, extent.seconds) == (FEWEST_QUESTIONS, 40.0)
    party.samples = [Sample(round=1, decode_tokens_per_s=12.0, prefill_tokens_per_s=200.0)]
    assert FEWEST_QUESTIONS < extent_of(party, 40.0).questions < len(sample_openings())
    party.samples = [Sample(round=1, decode_tokens_per_s=200.0, prefill_tokens_per_s=2000.0)]
    assert extent_of(party, 400.0)[2:] == (len(sample_openings()), LONGEST_S)
    assert extent_of(party, 10.0).places > FEWEST_PLACES
    party.samples = [Sample(round=1, decode_tokens_per_s=200.0, prefill_tokens_per_s=100.0)]
    assert extent_of(party, 10.0).places == FEWEST_PLACES  # reading the text takes all of its time
    assert extent_of(party, 1.0).seconds == SHORTEST_S
    assert spread_questions("abcdefghijkl", 5) == ["a", "c", "e", "h", "j"]
    assert spread_questions(sample_openings(), len(sample_openings())) == list(sample_openings())
