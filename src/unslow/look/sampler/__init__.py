"""The sampler: what all devices do while something is measured, ten or twenty times a second.

Files of the kernel are read in one thread, which also stamps the rows. Each GPU has a thread of its own, because a
driver can hang: its columns then stay empty, and everything else goes on. What is slow to read is read less often. The
rows of about the last hour are kept as they are, older ones ever thinner, so that a day takes no more memory than two
hours. Nothing of it passes through a recording: only the summary does.
"""

from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from math import inf
from threading import Event, Lock, Thread
from typing import Self

from unslow.facts.run import SamplerCost, Span, Telemetry, Timeline
from unslow.look.observer import current_observer
from unslow.look.sampler.readings import Device, Reader, Reading
from unslow.look.sampler.rows import SampledRows
from unslow.look.sampler.series_file import write_series
from unslow.look.sampler.sources import open_sources
from unslow.look.sampler.timeline import timeline_of
from unslow.look.system import Live, LookError, System

LONGEST_SLEEP_S = 0.25  # So long it takes at most until a slow sampler stops


class RowWriter:
    """Reads the files, takes what the GPUs' threads have read, and writes the row."""

    def __init__(self, live: Live, host: Reader, gpus: Sequence[Reader], book: SampledRows) -> None:
        self.host, self.gpus = host, gpus
        self._live, self._book = live, book

    def round(self, number: int) -> None:
        now = self._live.clock()
        self.host.round(number)
        row = self.host.take()
        for gpu in self.gpus:
            row += gpu.take()
        self._book.add(now, row)


class ScheduledThread(Thread):
    """Does its work on an absolute schedule: a late round does not make the next ones late."""

    def __init__(self, live: Live, work: Reader | RowWriter, period_s: float, stopping: Event, first_s: float) -> None:
        super().__init__(name="unslow sampler", daemon=True)
        self.work = work
        self.late, self.cpu_s, self.slowest_s = 0, 0.0, 0.0
        self._live, self._period_s, self._stopping, self._first_s = live, period_s, stopping, first_s

    def start(self) -> None:
        """Begin; where there is no room for a thread, there are no samples."""
        with suppress(RuntimeError):
            super().start()

    def run(self) -> None:
        clock, number = self._live.clock, 0
        while not self._stopping.is_set():
            # Sleeping costs half of what waiting for an event does
            if (left_s := self._first_s + number * self._period_s - clock()) > 0:
                self._live.sleep(min(left_s, LONGEST_SLEEP_S))
                continue
            start = clock()
            number = self.caught_up(number, start)
            self.work.round(number)
            self.cpu_s = self._live.cpu_s()
            self.slowest_s = max(self.slowest_s, clock() - start)
            number += 1

    def caught_up(self, number: int, now: float) -> int:
        """The round whose time it is; those that are more than a period late are left out, and counted."""
        behind = max(0, int((now - self._first_s) / self._period_s) - number)
        self.late += behind
        return number + behind


SLOWEST_HZ, FASTEST_HZ = 0.1, 100.0
FILE_SHARE, DRIVER_SHARE = 0.002, 0.01
"""Of a period that one reading may take: a file costs processor time that the model wants, a driver mostly waits."""
AHEAD = 0.1  # Of a period by which a GPU is read before the row is stamped, so that its values are in it
STUCK_S = 2.0
JOIN_S = 2.0


class Sampler:
    """Watches all devices from `start` to `stop`; starting never fails: the telemetry says what cannot be read."""

    def __init__(self, system: System, pids: Collection[int] = (), hz: float = 10.0) -> None:
        self._system, self._pids = system, tuple(pids)
        self._hz = min(FASTEST_HZ, max(SLOWEST_HZ, hz))
        self._live: Live | None = None
        self._closing = ExitStack()
        self._stopping = Event()
        self._lock = Lock()
        self._beats: list[ScheduledThread] = []
        self._book = SampledRows((), ())
        self._unread: dict[str, str] = {}
        self._started_s, self._stopped_s = 0.0, inf
        self._began_at = ""

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        """Stop, whatever happened."""
        self.stop()

    def start(self) -> None:
        """Open every source that is there, and begin; a second call does nothing."""
        with self._lock:
            if self._live is not None or self._stopping.is_set():
                return
            try:
                live = self._live = self._system.live()
            except LookError as error:
                self._unread["all"] = error.why
                return
            readings, self._unread = open_sources(live, self._pids, self._closing)
            self._began_at, self._started_s = live.now(), live.clock()
            self._set_up(live, readings)
            for beat in self._beats:
                beat.start()
        if watcher := current_observer():
            watcher.sampling(self)

    def _set_up(self, live: Live, readings: Sequence[Reading]) -> None:
        files = [reading for reading in readings if reading.device is None]
        devices = list(dict.fromkeys(reading.device for reading in readings if reading.device is not None))
        period_s = 1 / self._hz
        host = Reader("files", files, live.clock, live.cpu_s, period_s, FILE_SHARE)
        gpus = []
        for device in devices:
            own = [reading for reading in readings if reading.device == device]
            gpus.append(Reader(device.prefix.rstrip("_"), own, live.clock, live.clock, period_s, DRIVER_SHARE))
        columns = [column for reader in (host, *gpus) for column in reader.columns]
        self._book = SampledRows(columns, devices)
        ahead_s = AHEAD * period_s
        self._beats = [ScheduledThread(live, gpu, period_s, self._stopping, self._started_s + ahead_s) for gpu in gpus]
        scribe = RowWriter(live, host, gpus, self._book)
        self._beats.append(ScheduledThread(live, scribe, period_s, self._stopping, self._started_s + 2 * ahead_s))

    def stop(self) -> None:
        """End it; what was seen stays, and can be asked for. A thread that hangs in a driver is left behind."""
        self._stopping.set()
        with self._lock:
            beats, live = self._beats, self._live
        for beat in beats:
            if beat.ident is not None:
                beat.join(JOIN_S)
        if live is not None and self._stopped_s == inf:
            self._stopped_s = live.clock()
        if not any(beat.is_alive() for beat in beats):
            with suppress(Exception):  # a driver may fail at the goodbye too, and must not cost what was measured
                self._closing.close()

    @property
    def devices(self) -> tuple[Device, ...]:
        return self._book.devices

    def clock(self) -> float:
        """Now, in the clock of the spans, without a trace in a recording; 0 where nothing is watched."""
        return self._live.clock() if self._live is not None else 0.0

    def note(self, span: Span) -> None:
        """Count what was seen in this span to its phase."""
        self._book.note(span)

    def means_between(self, since_s: float, until_s: float | None = None) -> dict[str, float]:
        """Means of all columns in a stretch of time, maxima of some; columns without a value there are left out."""
        return self._book.means_between(since_s, inf if until_s is None else until_s)

    def telemetry(self) -> Telemetry:
        book, seconds = self._book, max(0.0, min(self.clock(), self._stopped_s) - self._started_s)
        span_s = book.last_s - book.first_s if book.samples > 1 else 0.0
        return Telemetry(
            seconds=seconds,
            samples=book.samples,
            asked_hz=self._hz,
            got_hz=(book.samples - 1) / span_s if span_s > 0 else 0.0,
            late=self._beats[-1].late if self._beats else 0,
            cost=self._cost(seconds),
            phases=book.phases(),
            unread=self.unread(),
            timeline=self.timeline(),
        )

    def recent(self, seconds: float) -> Telemetry:
        """The last seconds alone, by phase: in a long session, old samples say nothing."""
        phases = self._book.phases_since(self.clock() - seconds)
        return Telemetry(
            seconds=min(seconds, max(0.0, self.clock() - self._started_s)),
            samples=sum(phase.samples for phase in phases),
            asked_hz=self._hz,
            got_hz=self._hz,
            cost=self._cost(max(0.0, self.clock() - self._started_s)),
            phases=phases,
            unread=self.unread(),
        )

    @property
    def samples(self) -> int:
        return self._book.samples

    def timeline(self) -> Timeline | None:
        """What was seen so far over time, thinned to a picture; None where that is next to nothing."""
        return timeline_of(self._book)

    def unread(self) -> dict[str, str]:
        """Sources that could not be opened, that fail now, or that do not come back."""
        now, found = self.clock(), dict(self._unread)
        for reader in self.readers():
            found |= reader.unread
            since = reader.busy_since
            if since is not None and now - since > STUCK_S:
                found[reader.name] = f"has not answered for {now - since:.0f} s"
        return found

    def readers(self) -> list[Reader]:
        """Those who read, the files first."""
        scribe = self._beats[-1].work if self._beats else None
        return [scribe.host, *scribe.gpus] if isinstance(scribe, RowWriter) else []

    def write_series(self, path: str) -> None:
        """Every row that is kept, as .csv or .arrow; UserError where that cannot be done."""
        write_series(path, self._book, self._began_at, self._started_s)

    def _cost(self, seconds: float) -> SamplerCost:
        cpu_s = sum(beat.cpu_s for beat in self._beats)
        return SamplerCost(
            seconds_per_sample=cpu_s / self._book.samples if self._book.samples else 0.0,
            slowest_sample_s=max((beat.slowest_s for beat in self._beats), default=0.0),
            cpus=cpu_s / seconds if seconds > 0 else 0.0,
        )
