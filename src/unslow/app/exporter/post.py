"""One server under watch: a thread asks what it does for others, and a speed that was seen is kept for a while."""

from threading import Event, Thread

import msgspec

from unslow.app.exporter.steady import without_past
from unslow.app.watching.eyes import JOIN_S, SOON_S
from unslow.app.watching.found import target_to_watch
from unslow.app.watching.moment import server_now
from unslow.app.watching.request import Request
from unslow.app.watching.watched import Watched
from unslow.facts.run import Run
from unslow.facts.snapshot import Case, Snapshot, Subject
from unslow.facts.values import Known
from unslow.look.sampler import Sampler
from unslow.look.system import System

SAMPLES_PER_S = 0.5
"""Of the machine: clocks and throttling of a minute need no more."""
KEEP_S = 900.0
"""A speed that was seen stands for so long while nobody asks the server anything; `unslow_speed_timestamp_seconds`
says how old it is."""


class Post:
    """From `start` to `stop`; `case` may be called by any thread."""

    def __init__(self, system: System, seen: Snapshot, subject: Subject, request: Request) -> None:
        pid = subject.runtime.pid.value_or(None)
        sampler = Sampler(system, [] if pid is None else [pid], SAMPLES_PER_S)
        target = target_to_watch(system, subject, request)
        self.watched = Watched(system, seen, subject, target, sampler)
        self.seen_at_s: float | None = None
        """When its speed was last seen, by the clock of the system."""
        self.failure: BaseException | None = None
        self._system, self._every_s = system, request.interval_s
        self._samples = not request.is_elsewhere
        self._kept: Run | None = None
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="unslow exporter asks", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        if self._samples:
            self.watched.sampler.start()
        self._thread.start()

    def stop(self) -> None:
        """End it; a thread that waits for a server is left behind, and ends with the program."""
        self._stopping.set()
        self._thread.join(JOIN_S)
        self.watched.sampler.stop()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.ask()
                if self.watched.rates.is_half_seen and not self._stopping.wait(SOON_S):
                    self.ask()
                self._stopping.wait(self._every_s)
        except Exception as error:  # noqa: BLE001 (a bug must reach whoever judges: the look then fails, and says so)
            self.failure = error

    def ask(self) -> None:
        """One look at its work."""
        self.watched.ask()

    def case(self) -> Case:
        """The server with what was seen of its work: over the last minute, else the last time that there was any."""
        if self.failure is not None:
            raise self.failure
        case, now_s = self.watched.seen_case(), self._system.clock()
        if self._shows_work():  # so its speed is that of the requests that were seen
            case = without_past(case)
        if is_speed_seen(case.run):
            at_work = (look.at_s for look in tuple(self.watched.looks) if look.work.running)
            self._kept, self.seen_at_s = case.run, max(at_work, default=now_s)
        elif self._kept is not None and self.seen_at_s is not None and now_s - self.seen_at_s <= KEEP_S:
            return msgspec.structs.replace(case, run=self._kept)
        return case

    def _shows_work(self) -> bool:
        return any(look.work.running is not None for look in tuple(self.watched.looks))

    @property
    def answers(self) -> bool:
        """Whether it answers what it is asked about its work; one that is loading, hangs or is gone does not."""
        return server_now(self.watched, self._system.clock()).state == "answers"

    def note_measured(self) -> None:
        """Its speed was measured just now: what was seen before is past."""
        self._kept, self.seen_at_s = None, self._system.clock()


def is_speed_seen(run: Run) -> bool:
    """Whether requests were answered for long enough to tell a speed."""
    if not isinstance(run.traffic, Known):
        return False
    return isinstance(run.decode_tokens_per_s, Known) or isinstance(run.traffic.value.each_tokens_per_s, Known)
