"""How two servers are measured against each other, or one alone: rounds within a time, then the answers."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from unslow.commands._output import Progress
from unslow.commands.bench.bencher import Bencher
from unslow.commands.verify import server
from unslow.commands.verify.server import MeasuredServer
from unslow.facts.errors import UserError
from unslow.facts.run import Run
from unslow.facts.values import Known
from unslow.facts.verification import Work
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.system import System
from unslow.think.stats.conditions import conditions_of
from unslow.think.stats.gain import FEWEST_ROUNDS, is_enough, is_steady

ANSWERS_SHARE = 1 / 3  # Of the time, for answers
STRETCHED = 1.5
"""The time may be so much longer for the first few rounds: with fewer, all of it is lost. What else took longer than
it was to does not count for them."""
HOST_EVERY = 6  # Rounds between two looks at the host's own speed, each of which takes half a second
_TRIES = 2  # Of a start: one failure may be an accident


class Course(NamedTuple):
    """What is asked, and for how long."""

    work: Work
    seconds: float
    answers: bool = True
    extent: server.Extent | None = None  # How much of the answers is compared, where that was chosen before

    @property
    def for_speed_s(self) -> float:
        """The time for rounds."""
        return self.seconds * (1 - ANSWERS_SHARE) if self.answers else self.seconds

    @property
    def for_answers_s(self) -> float:
        """The time for the answers of both."""
        return self.seconds * ANSWERS_SHARE


class Clock:
    """Counts the time of starts and rounds, and says how much of it is left."""

    def __init__(self, system: System, seconds: float, progress: Progress, aside_s: float = math.inf) -> None:
        self._system, self._seconds, self._progress, self._aside_s = system, seconds, progress, aside_s
        self._since = self._rounds_since = system.clock()
        self._late_s = 0.0

    def begin_rounds(self) -> None:
        """Until now it was only started: that counts, and says nothing of how long a round is."""
        self._rounds_since = self._system.clock()

    def has_time(self, rounds: int) -> bool:
        """Whether another round after so many would end in time; for the first there always is time."""
        if not rounds:
            return True
        usual = (self._system.clock() - self._rounds_since) / rounds
        if rounds < FEWEST_ROUNDS:
            return self._spent_s - self._late_s + usual <= self._seconds * STRETCHED
        return self._spent_s + usual <= self._seconds

    def say(self, text: str) -> None:
        """What is being done now."""
        left = max(0.0, self._seconds - self._spent_s)
        self._progress.step(f"{text}, up to {left:.0f} s left", min(1.0, self._spent_s / self._seconds))

    @contextmanager
    def pause(self) -> Iterator[None]:
        """What happens in this block is no round, and does not count as far as there is time of its own for it."""
        start = self._system.clock()
        yield
        lasted = self._system.clock() - start
        free = min(lasted, self._aside_s)
        self._aside_s -= free
        self._late_s += lasted - free
        self._since += free
        self._rounds_since += lasted

    @property
    def _spent_s(self) -> float:
        return self._system.clock() - self._since


def in_turns(parties: Sequence[MeasuredServer], course: Course, system: System, progress: Progress) -> str:
    """Rounds until they tell enough or the time is over, then the answers; why it ended before its time."""
    clock = Clock(system, course.for_speed_s, progress)
    with ExitStack() as stack:
        both = [(stack.enter_context(party.open_bencher(progress)), party) for party in parties]
        if both[0][0].target.url == both[1][0].target.url:
            raise UserError("both are the same server", "name two, or measure with --save, change it, then --against")
        for bencher, party in both:
            progress.step(f"warming up: {party.what}", 0.0)
            if why := server.warm_up(bencher, party, course.work):
                return why
        clock.begin_rounds()
        number = 0
        while clock.has_time(number) and not is_enough(both[0][1].samples, both[1][1].samples):
            number += 1
            clock.say(f"round {number}")
            prompt = server.prompt_of(both[0][0], course.work)
            for bencher, party in both if number % 2 else reversed(both):
                if why := server.measure_request(bencher, party, course.work, prompt, number):
                    return why
        if course.answers:
            extent = server.extent_of(both[0][1], course.for_answers_s)
            for bencher, party in both:
                server.compare_answers(bencher, party, extent, twice=party is both[0][1])
        return ""


def one_after_the_other(parties: Sequence[MeasuredServer], course: Course, system: System, progress: Progress) -> str:
    """Rounds until they tell enough or the time is over, answers in the first; why it ended before its time.

    A round is a whole life of two servers that do not fit together: where its memory landed stays the same for all
    requests of one life, so only another life tells what that is worth.
    """
    clock = Clock(system, course.for_speed_s, progress, course.for_answers_s)
    number, extent = 0, course.extent
    while clock.has_time(number) and not is_enough(parties[0].samples, parties[1].samples):
        number += 1
        prompts: list[server.Prompt] = []
        for party in parties if number % 2 else reversed(parties):
            clock.say(f"round {number}: {party.what}")
            with ExitStack() as life:
                bencher = _next_life(life, party, progress)
                if bencher is None:
                    return f"{party.what} did not restart in round {number}: {party.failed_starts[-1]}"
                if why := server.warm_up(bencher, party, course.work):
                    return why
                load_s = bencher.subject.run.load_s.value_or(0.0)  # both servers of a round get the same prompts
                for prompt in server.prompts_of_life(bencher, course.work, prompts, load_s):
                    if why := server.measure_request(bencher, party, course.work, prompt, number):
                        return why
                if course.answers and number == 1:
                    extent = extent or server.extent_of(party, course.for_answers_s)
                    with clock.pause():
                        server.compare_answers(bencher, party, extent, twice=party is parties[0])
    return ""


def _next_life(life: ExitStack, party: MeasuredServer, progress: Progress) -> Bencher | None:
    """Its next life; None where one that was measured before does not start again. UserError where it never did."""
    for _ in range(_TRIES):
        try:
            return life.enter_context(party.open_bencher(progress))
        except UserError as error:
            if not party.samples:
                raise
            party.failed_starts.append(error.message)
    return None


def measure_alone(party: MeasuredServer, course: Course, system: System, progress: Progress) -> str:
    """Rounds until they are steady or the time is over, then the answers; why it ended before its time."""
    clock = Clock(system, course.for_speed_s, progress)
    with party.open_bencher(progress) as bencher:
        progress.step(f"warming up: {party.what}", 0.0)
        why, number = server.warm_up(bencher, party, course.work), 0
        clock.begin_rounds()
        while not why and clock.has_time(number) and not is_steady(party.samples):
            if number % HOST_EVERY == 0:
                _note_host(party, system)
            number += 1
            clock.say(f"round {number}")
            why = server.measure_request(bencher, party, course.work, server.prompt_of(bencher, course.work), number)
        _note_host(party, system)
        telemetry = bencher.sampler.telemetry() if bencher.sampler else None
        party.conditions = conditions_of(telemetry, Run(), bencher.case.machine) if telemetry else {}
        if course.answers and not why:
            extent = course.extent or server.extent_of(party, course.for_answers_s)
            server.compare_answers(bencher, party, extent, twice=course.extent is None)
        return why


def _note_host(party: MeasuredServer, system: System) -> None:
    """How fast the host reads its memory; nothing where that can't be measured, or the server is elsewhere."""
    if party.is_here and isinstance(speed := read_ram_bandwidth(system).read_bytes_per_s, Known):
        party.host.append(speed.value)
