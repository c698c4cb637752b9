"""What is asked and for how long, and the clock that counts it."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from unslow.app.progress import Progress
from unslow.app.verify.answering import Extent
from unslow.facts.verified import Work
from unslow.look.system import System
from unslow.think.verify.rounds import FEWEST_ROUNDS

ANSWERS_SHARE = 1 / 3
"""Of the time, for answers."""
STRETCHED = 1.5
"""The time may be so much longer for the first few rounds: with fewer, all of it is lost. What else took longer than
it was to does not count for them."""


class Course(NamedTuple):
    """What is asked, and for how long."""

    work: Work
    seconds: float
    answers: bool = True
    extent: Extent | None = None
    """How much of the answers is compared, where that was chosen before."""

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
            return self._spent - self._late_s + usual <= self._seconds * STRETCHED
        return self._spent + usual <= self._seconds

    def say(self, text: str) -> None:
        """What is being done now."""
        left = max(0.0, self._seconds - self._spent)
        self._progress.step(f"{text}, up to {left:.0f} s left", min(1.0, self._spent / self._seconds))

    @contextmanager
    def stopped(self) -> Iterator[None]:
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
    def _spent(self) -> float:
        return self._system.clock() - self._since
