"""Measures servers as much as needed and no more: again and again what would settle most, until nothing is worth it.

The first measurement of each server is its usual speed, or where it may not be asked, what can be seen of its work. All
servers share the time. The course of it is kept, so that a recording can go the same way.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from unslow import __version__
from unslow.app.course import USUAL, Course, Limits, Step, notes_on
from unslow.app.manners import Manners
from unslow.app.progress import Progress
from unslow.app.target import slot_of, target_of
from unslow.app.visit import Visit
from unslow.facts.snapshot import Snapshot, Subject
from unslow.look.system import System
from unslow.look.system.closing import ClosingSystem
from unslow.think.measuring.catalogue import SPEED
from unslow.think.measuring.choice import FIRST
from unslow.think.measuring.measurement import Choice

FIRST_S = 4.0
"""What the first measurement of a server gets, however long looking took: without a speed there is little to say."""
CONCLUDING_S, CONCLUDING_SHARE, MOST_CONCLUDING_S = 2.0, 0.12, 8.0
"""For what comes before and after: the start of the program, another look at the memory, the judgement, the report. On
a machine that is busy with something else these take several times as long."""
HURRIED_SHARE = 0.5
"""With less time than usual, the speed may take this share of it, so that what is suspected can be tried as well."""

__all__ = ["Manners", "Measured", "Measuring", "measured_subject", "slot_of", "target_of"]


class Measured(NamedTuple):
    """The subjects with what was measured of them, what a reader must know of each, and how it went."""

    subjects: tuple[Subject, ...]
    notes: tuple[tuple[str, ...], ...]
    course: Course


class Measuring:
    """One session of measuring, from the moment in which it is made."""

    def __init__(
        self,
        system: System,
        manners: Manners,
        progress: Progress,
        limits: Limits = USUAL,
        *,
        door: ClosingSystem | None = None,
        recorded: Course | None = None,
    ) -> None:
        self._system, self._manners, self._progress, self._limits = system, manners, progress, limits
        self._door, self._recorded = door, recorded
        self._ahead = list(recorded.steps) if recorded else []
        # a clock that leaves no trace in a recording, and none at all where one goes on as it went
        self._clock: Callable[[], float] = door.clock if door else _no_time if recorded else system.clock
        self._since = self._clock()
        self._steps: list[Step] = []

    def begin_again(self) -> None:
        """Count the time from now on: what came before is done once, such as writing a model."""
        self._since = self._clock()

    def measured(self, seen: Snapshot, subjects: Sequence[Subject]) -> Measured:
        """Every subject with its measurements; being stopped ends them, and what was measured until then is kept."""
        visits = [Visit(self._system, seen, subject, self._manners, self._limits) for subject in subjects]
        try:
            for visit in visits:
                visit.label = f"{visit.subject.runtime.url.value_or('?')}: " if len(visits) > 1 else ""
                visit.introduce(self._progress)
            while step := self._next(visits):
                self._perform(visits, *step)
        except KeyboardInterrupt:
            if self._door is None or not self._door.is_stopped_once:
                raise
        return self._conclusion(visits)

    def _next(self, visits: Sequence[Visit]) -> tuple[int, Choice] | None:
        """What to measure now: as it was recorded, else what is worth most, after a first look at each server."""
        if self._recorded is not None:
            return self._as_recorded(visits)
        if self._door and self._door.is_stopped:
            return None
        found = [(number, visit.next(self._left_for(visit))) for number, visit in enumerate(visits)]
        known = [(number, choice) for number, choice in found if choice]
        return max(known, key=lambda one: _urgency(one[1]), default=None)

    def _as_recorded(self, visits: Sequence[Visit]) -> tuple[int, Choice] | None:
        while self._ahead:
            number, name = self._ahead.pop(0)
            if number < len(visits) and (choice := visits[number].named(name)):
                return number, choice
        return None

    def _perform(self, visits: Sequence[Visit], number: int, choice: Choice) -> None:
        visit, name = visits[number], choice.measurement.name
        waiting = sum(not v.performed for v in visits) if name in FIRST else 1
        seconds = max(self._share_of(name) / max(1, waiting), 0.0 if visit.performed else FIRST_S)
        if self._door:
            self._door.close_in(seconds)
        visit.perform(choice, seconds, lambda text, _share: self._say(visit, choice, text))
        self._steps.append(Step(number, name))

    def _say(self, visit: Visit, choice: Choice, text: str) -> None:
        """What is being done, why, and how long all of it takes at most."""
        left = max(0.0, self._left())
        words = f"{left:.0f} s left at most: {visit.label}{text}, {choice.measurement.why}"
        self._progress.step(words, 1 - left / self._limits.seconds)

    def _left_for(self, visit: Visit) -> float:
        return self._left() if visit.performed else max(self._left(), FIRST_S)

    def _share_of(self, name: str) -> float:
        """What there is for a measurement: all that is left, and less for the first one of a hurried diagnosis."""
        hurried = name == SPEED and self._limits.seconds < USUAL.seconds
        return min(self._left(), HURRIED_SHARE * self._limits.seconds) if hurried else self._left()

    def _left(self) -> float:
        total = self._limits.seconds
        concluding = min(MOST_CONCLUDING_S, max(CONCLUDING_S, CONCLUDING_SHARE * total))
        return total - concluding - (self._clock() - self._since)

    def _conclusion(self, visits: Sequence[Visit]) -> Measured:
        if self._door:
            self._door.concluding = True
            self._door.close_in(inf)
        course = self._recorded or self._course(visits)
        for visit in visits:
            if course.ended == "stopped":
                visit.cut_short("the measuring was stopped before an answer was whole", "let it measure to its end")
            elif course.ended == "late":
                why = f"no answer was whole within the {self._limits.seconds:.0f} s that there were"
                visit.cut_short(why, "give it more time with --thorough")
        notes = [notes_on(course, visit.missing()) if course.ended != "enough" else () for visit in visits]
        return Measured(tuple(visit.subject for visit in visits), tuple(notes), course)

    def _course(self, visits: Sequence[Visit]) -> Course:
        seconds = self._clock() - self._since
        if self._door and self._door.is_stopped:
            return Course(tuple(self._steps), "stopped", seconds)
        late = any(visit.missing() for visit in visits)
        return Course(tuple(self._steps), "late" if late else "enough", seconds)


def _urgency(choice: Choice) -> tuple[bool, bool, float]:
    return choice.measurement.name in FIRST, choice.decides_suspicion, choice.worth_per_s


def _no_time() -> float:
    return 0.0


def measured_subject(
    system: System, subject: Subject, manners: Manners, progress: Progress, limits: Limits = USUAL
) -> Subject:
    """One subject alone, on a machine of which nothing is known."""
    seen = Snapshot(unslow_version=__version__)
    return Measuring(system, manners, progress, limits).measured(seen, [subject]).subjects[0]
