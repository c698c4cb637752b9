"""Every row that was sampled, which phase it lay in, and what each phase comes to."""

from collections.abc import Iterator, Sequence
from math import inf
from threading import Lock
from typing import get_args

from unslow.facts.telemetry import Phase, PhaseTelemetry, Span
from unslow.look.sampler.block import ALL_PHASES, PHASES, Block
from unslow.look.sampler.reading import CORE, REASON_BITS, Device
from unslow.look.sampler.series import Series
from unslow.look.sampler.spans import Union
from unslow.look.sampler.summary import phase_telemetry, seen_in
from unslow.look.sampler.tally import Tally

_IDLE = "idle"


class Book:
    """Written by one thread, read and annotated by many; a lock is never held for longer than a block takes."""

    def __init__(self, columns: Sequence[str], devices: Sequence[Device]) -> None:
        self.columns, self.devices = tuple(columns), tuple(devices)
        self._masks = frozenset(at for at, name in enumerate(columns) if name.endswith(REASON_BITS))
        self._summed = tuple(at for at, name in enumerate(columns) if not name.startswith(CORE))
        self._series = Series(len(columns), self._masks, self._fold_old)
        self._tallies = {phase: self._new_tally() for phase in (*PHASES, _IDLE)}
        self._lasted = {phase: Union() for phase in PHASES}
        self._lock = Lock()
        self.samples = 0
        self.first_s, self.last_s = inf, inf

    def add(self, seconds: float, row: Sequence[float]) -> None:
        """One row more."""
        with self._lock:
            self._series.add(seconds, row)
            self.samples += 1
            self.first_s, self.last_s = min(self.first_s, seconds), seconds

    def note(self, span: Span) -> None:
        """Count the rows of the span to its phase; a row that another span has brought there counts no second time."""
        bit = PHASES.get(span.phase)
        if bit is None:
            return
        with self._lock:
            self._lasted[span.phase].add(span.start_s, span.end_s)
            recent = list(self._series.recent())
        for block in recent:
            with self._lock:
                start, end = block.between(span.start_s, span.end_s)
                for first, last in _runs(block, start, end, bit):
                    self._tallies[span.phase].add(block, first, last)
                    _mark(block, first, last, bit)
            if len(block) and block.seconds[0] < span.start_s:
                break

    def phases(self) -> tuple[PhaseTelemetry, ...]:
        """What each phase comes to so far; those without samples and without time are left out."""
        idle, idle_s = self._idle()
        found = []
        for phase in get_args(Phase):
            with self._lock:
                tally = idle if phase == _IDLE else self._tallies[phase].joined(self._new_tally())
                seconds = idle_s if phase == _IDLE else self._lasted[phase].seconds
            if tally.samples or seconds:
                found.append(phase_telemetry(phase, seconds, tally, self.columns, self.devices))
        return tuple(found)

    def seen(self, start_s: float, end_s: float) -> dict[str, float]:
        """Means, and maxima where they matter, of the rows in a stretch of time."""
        tally = self._new_tally()
        for block in self._blocks():
            with self._lock:
                first, last = block.between(start_s, end_s)
                if first < last:
                    tally.add(block, first, last)
        return seen_in(tally, self.columns, self.devices)

    def phases_since(self, since_s: float) -> tuple[PhaseTelemetry, ...]:
        """What each phase comes to by the rows since a moment alone; a row of two phases counts to both."""
        tallies = {phase: self._new_tally() for phase in get_args(Phase)}
        for block in self._blocks():
            with self._lock:
                start, end = block.between(since_s, inf)
                for at in range(start, end):
                    for phase, tally in tallies.items():
                        if block.phases[at] & PHASES.get(phase, 0) or (phase == _IDLE and not block.phases[at]):
                            tally.add(block, at, at + 1)
        every_s = (self.last_s - self.first_s) / (self.samples - 1) if self.samples > 1 else 0.0
        return tuple(
            phase_telemetry(phase, tally.samples * every_s, tally, self.columns, self.devices)
            for phase, tally in tallies.items()
            if tally.samples
        )

    def held(self) -> list[tuple[Block, int]]:
        """Every block that is still there, oldest first, and how many rows of it are whole: more may be coming."""
        with self._lock:
            return [(block, len(block)) for block in self._series.blocks() if len(block)]

    def pieces(self, phase: Phase) -> list[tuple[float, float]]:
        """The stretches of a phase without overlaps, oldest first; of very many, the later ones."""
        with self._lock:
            return self._lasted[phase].pieces() if phase in self._lasted else []

    def rows(self) -> Iterator[tuple[float, int, list[float]]]:
        """Moment, phases as bits, and values of every row that is still there, oldest first."""
        for block in self._blocks():
            with self._lock:
                rows = [(s, block.phases[at], [c[at] for c in block.columns]) for at, s in enumerate(block.seconds)]
            yield from rows

    def _blocks(self) -> list[Block]:
        with self._lock:
            return list(self._series.blocks())

    def _new_tally(self) -> Tally:
        return Tally(self._summed, self._masks)

    def _fold_old(self, block: Block) -> None:
        """What nobody has claimed within the hour was idle; called with the lock held."""
        for first, last in _runs(block, 0, len(block), ALL_PHASES):
            self._tallies[_IDLE].add(block, first, last)

    def _idle(self) -> tuple[Tally, float]:
        """Rows of no phase, and about how long they lasted: their share of all."""
        fresh = self._new_tally()
        with self._lock:
            recent = list(self._series.recent())
        for block in reversed(recent):
            with self._lock:
                for first, last in _runs(block, 0, len(block), ALL_PHASES):
                    fresh.add(block, first, last)
        with self._lock:
            idle = self._tallies[_IDLE].joined(fresh)
            every_s = (self.last_s - self.first_s) / (self.samples - 1) if self.samples > 1 else 0.0
        return idle, idle.samples * every_s


def _runs(block: Block, start: int, end: int, bits: int) -> Iterator[tuple[int, int]]:
    """The stretches of rows between `start` and `end` in which none of the bits is set."""
    first = start
    for at in range(start, end):
        if block.phases[at] & bits:
            if first < at:
                yield first, at
            first = at + 1
    if first < end:
        yield first, end


def _mark(block: Block, first: int, last: int, bit: int) -> None:
    for at in range(first, last):
        block.phases[at] |= bit
