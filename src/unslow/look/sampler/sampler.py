"""The sampler itself: threads that read on a schedule, and the questions that may be asked of them at any time."""

from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from math import inf
from threading import Event, Lock
from types import TracebackType
from typing import Self

from unslow.facts.telemetry import SamplerCost, Span, Telemetry, Timeline
from unslow.look.observed import observer
from unslow.look.sampler.beat import Beat, Scribe
from unslow.look.sampler.book import Book
from unslow.look.sampler.reader import Reader
from unslow.look.sampler.reading import Device, Reading
from unslow.look.sampler.sources import open_sources
from unslow.look.sampler.timeline import timeline_of
from unslow.look.sampler.write import write_series
from unslow.look.system import Live, LookError, System

SLOWEST_HZ, FASTEST_HZ = 0.1, 100.0
FILE_SHARE, DRIVER_SHARE = 0.002, 0.01
"""Of a period that one reading may take: a file costs processor time that the model wants, a driver mostly waits."""
AHEAD = 0.1
"""Of a period by which a GPU is read before the row is stamped, so that its values are in it."""
STUCK_S = 2.0
JOIN_S = 2.0


class Sampler:
    """Watches all devices from `start` to `stop`; starting never fails: what can't be read is said in the telemetry."""

    def __init__(self, system: System, pids: Collection[int] = (), hz: float = 10.0) -> None:
        self._system, self._pids = system, tuple(pids)
        self._hz = min(FASTEST_HZ, max(SLOWEST_HZ, hz))
        self._live: Live | None = None
        self._closing = ExitStack()
        self._stopping = Event()
        self._lock = Lock()
        self._beats: list[Beat] = []
        self._book = Book((), ())
        self._unread: dict[str, str] = {}
        self._started_s, self._stopped_s = 0.0, inf
        self._began_at = ""

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        if watcher := observer():
            watcher.sampling(self)

    def _set_up(self, live: Live, readings: Sequence[Reading]) -> None:
        files = [reading for reading in readings if reading.device is None]
        devices = list(dict.fromkeys(reading.device for reading in readings if reading.device is not None))
        period_s = 1 / self._hz
        host = Reader("files", files, live.clock, live.cpu_s, period_s, FILE_SHARE)
        gpus = [_gpu_reader(live, device, readings, period_s) for device in devices]
        columns = [column for reader in (host, *gpus) for column in reader.columns]
        self._book = Book(columns, devices)
        ahead_s = AHEAD * period_s
        self._beats = [Beat(live, gpu, period_s, self._stopping, self._started_s + ahead_s) for gpu in gpus]
        scribe = Scribe(live, host, gpus, self._book)
        self._beats.append(Beat(live, scribe, period_s, self._stopping, self._started_s + 2 * ahead_s))

    def stop(self) -> None:
        """End it; what was seen stays, and can be asked for. A thread that hangs in a driver is left behind."""
        self._stopping.set()
        with self._lock:
            beats, live = self._beats, self._live
        ended = [beat.ended(JOIN_S) for beat in beats]
        if live is not None and self._stopped_s == inf:
            self._stopped_s = live.clock()
        if all(ended):
            with suppress(Exception):  # a driver may fail at the goodbye too, and must not cost what was measured
                self._closing.close()

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs that are watched."""
        return self._book.devices

    def clock(self) -> float:
        """Now, in the clock of the spans, without a trace in a recording; 0 where nothing is watched."""
        return self._live.clock() if self._live is not None else 0.0

    def note(self, span: Span) -> None:
        """Count what was seen in this span to its phase."""
        self._book.note(span)

    def seen(self, since_s: float, until_s: float | None = None) -> dict[str, float]:
        """Means of all columns in a stretch of time, maxima of some; columns without a value there are left out."""
        return self._book.seen(since_s, inf if until_s is None else until_s)

    def telemetry(self) -> Telemetry:
        """All that was seen so far, by phase."""
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
        """The last so many seconds alone, by phase: of a watching that goes on, what is long past says nothing."""
        book = self._book
        phases = book.phases_since(self.clock() - seconds)
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
        """How many rows there are so far."""
        return self._book.samples

    def timeline(self) -> Timeline | None:
        """What was seen so far over time, thinned to a picture; None where that is next to nothing."""
        return timeline_of(self._book)

    def unread(self) -> dict[str, str]:
        """Sources that could not be opened, that fail now, or that do not come back."""
        now, found = self.clock(), dict(self._unread)
        for reader in self.readers():
            found |= reader.unread
            if reader.stuck_s(now) > STUCK_S:
                found[reader.name] = f"has not answered for {reader.stuck_s(now):.0f} s"
        return found

    def readers(self) -> list[Reader]:
        """Those who read, the files first."""
        scribe = self._beats[-1].work if self._beats else None
        return [scribe.host, *scribe.gpus] if isinstance(scribe, Scribe) else []

    def write_series(self, path: str) -> None:
        """Every row that is kept, as .csv or .arrow; UserError where that can't be done."""
        write_series(path, self._book, self._began_at, self._started_s)

    def _cost(self, seconds: float) -> SamplerCost:
        cpu_s = sum(beat.cpu_s for beat in self._beats)
        return SamplerCost(
            seconds_per_sample=cpu_s / self._book.samples if self._book.samples else 0.0,
            slowest_sample_s=max((beat.slowest_s for beat in self._beats), default=0.0),
            cpus=cpu_s / seconds if seconds > 0 else 0.0,
        )


def _gpu_reader(live: Live, device: Device, readings: Sequence[Reading], period_s: float) -> Reader:
    own = [reading for reading in readings if reading.device == device]
    return Reader(device.prefix.rstrip("_"), own, live.clock, live.clock, period_s, DRIVER_SHARE)
