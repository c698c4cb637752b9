"""Two servers that do not fit together: each is started for every round, asked, and ended again.

A round is then a whole life of each of them: where its memory landed stays the same for all requests of one life, so
only another life tells what that is worth.
"""

from collections.abc import Sequence
from contextlib import ExitStack

from unslow.app.bench.bencher import Bencher
from unslow.app.progress import Progress
from unslow.app.verify.answering import compare_answers, extent_of
from unslow.app.verify.asking import Prompt, asked, prompt_of, warm_up
from unslow.app.verify.course import Clock, Course
from unslow.app.verify.party import Party
from unslow.facts.errors import UserError
from unslow.facts.verified import Work
from unslow.look.system import System
from unslow.think.verify.rounds import is_enough

FEWEST_EACH, MOST_EACH = 2, 6
"""Requests to one life: as many as take about as long as its start."""
_TRIES = 2
"""Of a start: one failure may be an accident, such as memory that the other has not given back yet."""


def one_after_the_other(parties: Sequence[Party], course: Course, system: System, progress: Progress) -> str:
    """Rounds until they tell enough or the time is over, answers in the first; why it ended before its time."""
    clock = Clock(system, course.for_speed_s, progress, course.for_answers_s)
    number, extent = 0, course.extent
    while clock.has_time(number) and not is_enough(parties[0].samples, parties[1].samples):
        number += 1
        prompts: list[Prompt] = []
        for party in parties if number % 2 else reversed(parties):
            clock.say(f"round {number}: {party.what}")
            with ExitStack() as life:
                bencher = _entered(life, party, progress)
                if bencher is None:
                    return f"{party.what} did not start again in round {number}: {party.failed_starts[-1]}"
                if why := _life(bencher, party, course.work, prompts, number):
                    return why
                if course.answers and number == 1:
                    extent = extent or extent_of(party, course.for_answers_s)
                    with clock.stopped():
                        compare_answers(bencher, party, extent, twice=party is parties[0])
    return ""


def _entered(life: ExitStack, party: Party, progress: Progress) -> Bencher | None:
    """Its next life; None where one that was measured before does not start again. UserError where it never did."""
    for _ in range(_TRIES):
        try:
            return life.enter_context(party.opened(progress))
        except UserError as error:
            if not party.samples:
                raise
            party.failed_starts.append(error.message)
    return None


def _life(bencher: Bencher, party: Party, work: Work, prompts: list[Prompt], number: int) -> str:
    """Some requests to one life of a server; both of a round get the same prompts, which the first of them makes."""
    if why := warm_up(bencher, party, work):
        return why
    if not prompts:
        prompts += [prompt_of(bencher, work) for _ in range(MOST_EACH)]
    end = bencher.system.clock() + bencher.subject.run.load_s.value_or(0.0)
    for count, prompt in enumerate(prompts):
        if count >= FEWEST_EACH and bencher.system.clock() > end:
            break
        if why := asked(bencher, party, work, prompt, number):
            return why
    return ""
