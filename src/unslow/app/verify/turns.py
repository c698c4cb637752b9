"""Two servers that both run, asked in turns: each pair meets the same minute, and who goes first changes."""

from collections.abc import Sequence
from contextlib import ExitStack

from unslow.app.bench.bencher import Bencher
from unslow.app.progress import Progress
from unslow.app.verify.answering import compare_answers, extent_of
from unslow.app.verify.asking import asked, prompt_of, warm_up
from unslow.app.verify.course import Clock, Course
from unslow.app.verify.party import Party
from unslow.facts.errors import UserError
from unslow.facts.verified import Work
from unslow.look.system import System
from unslow.think.verify.rounds import is_enough

Both = Sequence[tuple[Bencher, Party]]


def in_turns(parties: Sequence[Party], course: Course, system: System, progress: Progress) -> str:
    """Rounds until they tell enough or the time is over, then the answers; why it ended before its time."""
    clock = Clock(system, course.for_speed_s, progress)
    with ExitStack() as stack:
        both = [(stack.enter_context(party.opened(progress)), party) for party in parties]
        if both[0][0].target.url == both[1][0].target.url:
            raise UserError("both are the same server", "name two, or measure with --save, change it, then --against")
        return asked_in_turns(both, course, clock, progress)


def asked_in_turns(both: Both, course: Course, clock: Clock, progress: Progress) -> str:
    """The same of servers that are open; the clock has counted since before they were."""
    for bencher, party in both:
        progress.step(f"warming up: {party.what}", 0.0)
        if why := warm_up(bencher, party, course.work):
            return why
    clock.begin_rounds()
    number = 0
    while clock.has_time(number) and not is_enough(both[0][1].samples, both[1][1].samples):
        number += 1
        clock.say(f"round {number}")
        if why := _round(both, course.work, number):
            return why
    if course.answers:
        extent = extent_of(both[0][1], course.for_answers_s)
        for bencher, party in both:
            compare_answers(bencher, party, extent, twice=party is both[0][1])
    return ""


def _round(both: Both, work: Work, number: int) -> str:
    prompt = prompt_of(both[0][0], work)
    for bencher, party in both if number % 2 else reversed(both):
        if why := asked(bencher, party, work, prompt, number):
            return why
    return ""
