"""The thread that looks, and the ticks that come of it one after the other."""

from collections.abc import Iterator
from threading import Event, Thread

from unslow.app.watching.request import Request
from unslow.app.watching.watching import Watching
from unslow.look.system import System
from unslow.think.view.live import Tick

LOOKS = 2
"""To each interval: an answer that takes a second or two is seen more than once."""
SOON_S = 0.2
"""After the first look at an answer: one that is over within a second has a speed too."""
ENOUGH_ROUNDS = 4
"""Of looking, before one moment alone is shown: growth needs two looks, and the first judgement takes a while."""
LONGEST_ONCE_S = 30.0
JOIN_S = 0.5
"""A thread that waits for a server is left behind: it ends with the program."""


class Eyes:
    """Looks at every interval, in a thread of its own, from `start` to `stop`."""

    def __init__(self, watching: Watching, interval_s: float, system: System) -> None:
        self._watching, self._every_s, self._system = watching, interval_s / LOOKS, system
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="unslow watch", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self._thread.join(JOIN_S)
        self._watching.close()

    def _run(self) -> None:
        clock, due = self._system.clock, self._system.clock()
        try:
            while not self._stopping.is_set():
                self._watching.look()
                due = max(due + self._every_s, clock())
                if self._watching.is_half_seen and not self._stopping.wait(min(SOON_S, due - clock())):
                    self._watching.look()
                self._stopping.wait(due - clock())
        except BaseException as error:  # noqa: BLE001 (a bug must reach whoever shows the screen)
            self.failure = error


def ticks(watching: Watching, request: Request, system: System) -> Iterator[Tick]:
    """A tick at every interval; one alone where only one was asked for, once a speed can be told."""
    eyes, start_s = Eyes(watching, request.interval_s, system), system.clock()
    eyes.start()
    try:
        if request.once:
            while watching.rounds < ENOUGH_ROUNDS and system.clock() - start_s < LONGEST_ONCE_S + request.interval_s:
                _checked(watching, eyes)
                system.sleep(request.interval_s / LOOKS)
            yield _checked(watching, eyes)
            return
        while request.seconds is None or system.clock() - start_s < request.seconds:
            system.sleep(request.interval_s)
            yield _checked(watching, eyes)
    finally:
        eyes.stop()


def _checked(watching: Watching, eyes: Eyes) -> Tick:
    if eyes.failure is not None:
        raise eyes.failure
    return watching.tick()
