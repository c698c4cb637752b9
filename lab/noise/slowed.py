"""A process that really runs slower: stopped for a moment, again and again."""

import os
import signal
import time
from threading import Event, Thread
from types import TracebackType
from typing import Self


class Slowed:
    """Stops a process for a share of the time while the block lasts; only one that this program started."""

    def __init__(self, pid: int, share: float, period_s: float) -> None:
        self._pid, self._share, self._period_s = pid, share, period_s
        self._done = Event()
        self._thread = Thread(target=self._run)
        self.stopped_s, self.seconds = 0.0, 0.0

    @property
    def got(self) -> float:
        """The share of the time for which it was really stopped."""
        return self.stopped_s / self.seconds if self.seconds else 0.0

    def _run(self) -> None:
        """Stop for the same moment each time; how long it runs in between makes up for every moment that came late."""
        began = time.monotonic()
        while not self._done.is_set():
            start = time.monotonic()
            os.kill(self._pid, signal.SIGSTOP)
            time.sleep(self._share * self._period_s)
            os.kill(self._pid, signal.SIGCONT)
            now = time.monotonic()
            self.stopped_s += now - start
            self._done.wait(max(0.0, began + self.stopped_s / self._share - now))
            self.seconds = time.monotonic() - began

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let it run on, whatever happened."""
        self._done.set()
        self._thread.join()
        os.kill(self._pid, signal.SIGCONT)
