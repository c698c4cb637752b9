"""What is asked and for how long, and the clock that counts it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from unslow.app.progress import Progress
from unslow.app.verify.answering import Extent
from unslow.facts.verified import Work
from unslow.look.system import System

FEWEST_ROUNDS = 3
"""Even where the time is over: fewer tell nothing about noise."""
ANSWERS_SHARE = 1 / 3
"""Of the time, for answers."""


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
    """Counts the time of the rounds, and says how much of it is left."""

    def __init__(self, system: System, seconds: float, progress: Progress) -> None:
        self._system, self._seconds, self._progress = system, seconds, progress
        self._since = system.clock()

    def has_time(self, rounds: int) -> bool:
        """Whether there is time for another round after so many; for the first few there always is."""
        return rounds < FEWEST_ROUNDS or self._spent < self._seconds

    def say(self, text: str) -> None:
        """What is being done now."""
        left = max(0.0, self._seconds - self._spent)
        self._progress.step(f"{text}, up to {left:.0f} s left", min(1.0, self._spent / self._seconds))

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """What happens in this block does not count."""
        start = self._system.clock()
        yield
        self._since += self._system.clock() - start

    @property
    def _spent(self) -> float:
        return self._system.clock() - self._since
