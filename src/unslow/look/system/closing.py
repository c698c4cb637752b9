"""The machine through a door that closes: when the time is up, or when the user has seen enough.

What is being asked then ends with a LookError like any other, so that whoever asks keeps what it has. A second wish to
stop is a KeyboardInterrupt wherever it comes.
"""

import socket
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from math import inf
from typing import Any

from unslow.facts.values import Absence
from unslow.look.system import http
from unslow.look.system.door import Answer, Line, LookError
from unslow.look.system.live import LiveSystem

LATE = "the time for measuring was over"
STOPPED = "it was stopped"
_LEAST_S = 0.05


def was_closed(error: LookError) -> bool:
    """Whether it was the door that ended an exchange, and not the server."""
    return error.why in (LATE, STOPPED)


def _hang_up(lines: Iterator[Line]) -> None:
    """End the exchange now: a server answers until nobody listens, and an error may keep the lines for long."""
    if isinstance(lines, Generator):
        lines.close()


class ClosingSystem(LiveSystem):
    """Any thread may ask; only the one that it belongs to is stopped in the middle of what it does."""

    def __init__(self, named_hosts: Sequence[str] = ()) -> None:
        super().__init__(named_hosts)
        self.concluding = False
        """Whether all is asked and only the answer is missing: a wish to stop then changes nothing."""
        self._closes_at = inf
        self._stops = 0
        self._listening, self._waiting = 0, False
        self._owner = threading.current_thread()
        self._sockets: frozenset[socket.socket] = frozenset()
        self._lock = threading.Lock()
        self._was_cut = False

    def close_in(self, seconds: float) -> None:
        """Answer nothing after so many seconds."""
        self._closes_at = time.monotonic() + seconds

    @property
    def is_stopped(self) -> bool:
        """Whether the user has seen enough."""
        return self._stops > 0

    @property
    def is_stopped_once(self) -> bool:
        """Whether so, and what is known until now is still wanted."""
        return self._stops == 1

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._closes_at

    def stop(self) -> None:
        """Close now; called from a signal handler, so it comes in the middle of anything."""
        self._stops += 1
        listens = self._listening > 0 and not self._waiting  # and looks at the door with the next line
        if self._stops > 1 or not (self.concluding or listens):
            raise KeyboardInterrupt

    def stop_from_afar(self) -> None:
        """Close now, asked by another thread: nobody waits on for a server that reads a long prompt."""
        self._stops = max(1, self._stops)
        if self.concluding:
            return
        with self._lock:
            for one in self._sockets:
                self._was_cut = True
                http.shut(one)

    def request(self, *given: Any, **named: Any) -> Answer:
        try:
            return super().request(*given, **named)
        except LookError:
            self._check_cut()
            raise

    def _opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._sockets = frozenset({connection, *(one for one in self._sockets if one.fileno() >= 0)})
        self._check()  # who was asked to stop just before did not know this socket

    def _allowed_s(self, seconds: float) -> float:
        self._check()
        return min(seconds, self._left_s())

    def _heard(self, lines: Iterator[Line]) -> Iterator[Line]:
        if threading.current_thread() is not self._owner:
            yield from self._while_open(lines)
            return
        self._listening += 1
        try:
            yield from self._while_open(self._stoppable(lines))
        finally:
            self._listening -= 1

    def _while_open(self, lines: Iterator[Line]) -> Iterator[Line]:
        try:
            for line in lines:
                self._check()
                yield line
            self._check_cut()
        except LookError:
            self._check()  # one that was cut off for the hour is late, not silent
            raise
        finally:
            _hang_up(lines)

    def _stoppable(self, lines: Iterator[Line]) -> Iterator[Line]:
        """The lines; being stopped while waiting for one closes the door."""
        try:
            while (line := self._awaited(lines)) is not None:
                yield line
        finally:
            _hang_up(lines)

    def _awaited(self, lines: Iterator[Line]) -> Line | None:
        try:
            self._waiting = True
            return next(lines, None)
        except KeyboardInterrupt:
            if self._stops > 1:
                raise
            raise LookError(STOPPED, Absence.NOT_LOOKED) from None
        finally:
            self._waiting = False

    def sleep(self, seconds: float) -> None:
        super().sleep(max(0.0, min(seconds, self._left_s())))

    def live(self) -> "ClosingSystem":
        return self

    def _left_s(self) -> float:
        return max(_LEAST_S, self._closes_at - time.monotonic())

    def _check_cut(self) -> None:
        """What was cut off from afar is no answer, and not the server's fault."""
        if self._was_cut:
            self._check()

    def _check(self) -> None:
        # what concludes is the owner's thread: whatever others still ask of a server is for nobody
        if self.is_stopped and not (self.concluding and threading.current_thread() is self._owner):
            raise LookError(STOPPED, Absence.NOT_LOOKED)
        if self.is_late:
            raise LookError(LATE, Absence.NOT_LOOKED, "give it more time with --thorough")
