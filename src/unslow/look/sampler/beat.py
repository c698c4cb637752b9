"""The rhythm: threads that do their round on an absolute schedule, one of which writes the rows."""

from collections.abc import Sequence
from threading import Event, Thread

from unslow.look.sampler.book import Book
from unslow.look.sampler.reader import Reader
from unslow.look.system import Live

LONGEST_SLEEP_S = 0.25
"""So long it takes at most until a slow sampler stops."""


class Scribe:
    """Reads the files, takes what the GPUs' threads have read, and writes the row."""

    def __init__(self, live: Live, host: Reader, gpus: Sequence[Reader], book: Book) -> None:
        self.host, self.gpus = host, gpus
        self._live, self._book = live, book

    def round(self, number: int) -> None:
        """One row."""
        now = self._live.clock()
        self.host.round(number)
        row = self.host.take()
        for gpu in self.gpus:
            row += gpu.take()
        self._book.add(now, row)


class Beat(Thread):
    """Does its work on an absolute schedule: a late round does not make the next ones late."""

    def __init__(self, live: Live, work: Reader | Scribe, period_s: float, stopping: Event, first_s: float) -> None:
        super().__init__(name="unslow sampler", daemon=True)
        self.work = work
        self.late, self.cpu_s, self.slowest_s = 0, 0.0, 0.0
        self._live, self._period_s, self._stopping, self._first_s = live, period_s, stopping, first_s
        self._begun = False

    def start(self) -> None:
        """Begin; where there is no room for a thread, there are no samples."""
        try:
            super().start()
            self._begun = True
        except RuntimeError:
            self._begun = False

    def ended(self, timeout_s: float) -> bool:
        """Wait for its end; whether it has come."""
        if self._begun:
            self.join(timeout_s)
        return not self.is_alive()

    def run(self) -> None:
        """Round after round until told to stop."""
        clock, number = self._live.clock, 0
        while self._wait_until(self._first_s + number * self._period_s):
            start = clock()
            number = self.caught_up(number, start)
            self.work.round(number)
            self.cpu_s = self._live.cpu_s()
            self.slowest_s = max(self.slowest_s, clock() - start)
            number += 1

    def _wait_until(self, when_s: float) -> bool:
        """Sleep, which costs half of what waiting for an event does; False once it is time to stop."""
        while not self._stopping.is_set() and (left_s := when_s - self._live.clock()) > 0:
            self._live.sleep(min(left_s, LONGEST_SLEEP_S))
        return not self._stopping.is_set()

    def caught_up(self, number: int, now: float) -> int:
        """The round whose time it is; those that are more than a period late are left out, and counted."""
        behind = max(0, int((now - self._first_s) / self._period_s) - number)
        self.late += behind
        return number + behind
