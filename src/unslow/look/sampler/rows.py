"""Every row that was sampled, in memory that does not grow; which phase it lay in, and what each phase comes to."""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from math import inf, nan
from operator import or_
from threading import Lock
from typing import get_args

from unslow.facts.run import GpuTelemetry, Phase, PhaseTelemetry, Span, Stat
from unslow.look.sampler.readings import CORE, REASON_BITS, Device

PHASE_BITS = {"queue": 1, "load": 2, "prefill": 4, "decode": 8}
"""The bit of each phase in a row; a row with none was idle."""
ALL_PHASES = sum(PHASE_BITS.values())

BLOCK_ROWS = 256
HOUR_ROWS = 36_000  # An hour at 10 Hz, half an hour at 20 Hz
LEVEL_BYTES = 8 * 1024**2  # No level takes more; a server with hundreds of cores keeps less than an hour
THINNER = 8
LEVELS = 3  # At 10 Hz: one hour, then eight hours at 1.25 Hz, then 64 hours at one sample in 6.4 s
_FEWEST_BLOCKS = 8

MOST_PIECES = 512
"""Stretches kept apart; when there are more, the older half is summed up and takes no more part in overlaps."""

_MOST_MASKS = 256  # different sets of reasons; a driver that invents more is not believed

_MAXIMA = ("vram_used_bytes", "power_w", "temperature_c", "own_rss_bytes", "busiest_core")
"""Where the highest matters as much as the mean."""
_DIGITS = 12  # of a fraction: rounded so that a sum of thirds is a whole

_IDLE = "idle"


class Block:
    """Some rows in a row. Single precision: 7 digits are more than any sensor has, and half the memory."""

    __slots__ = ("columns", "phases", "seconds")

    def __init__(self, width: int) -> None:
        self.seconds = array("d")
        self.phases = bytearray()
        self.columns = [array("f") for _ in range(width)]

    def __len__(self) -> int:
        """How many rows."""
        return len(self.seconds)

    def add(self, seconds: float, row: Sequence[float], phases: int = 0) -> None:
        self.seconds.append(seconds)
        self.phases.append(phases)
        for column, value in zip(self.columns, row, strict=True):
            column.append(value)

    def between(self, start_s: float, end_s: float) -> tuple[int, int]:
        """The rows from the first to the one after the last whose moment lies in there, ends included."""
        return bisect_left(self.seconds, start_s), bisect_right(self.seconds, end_s)

    def thin(self, by: int, masks: frozenset[int]) -> "Block":
        """One row for each `by`: means, but for columns that are masks; there a bit is set where it ever was."""
        thin = Block(len(self.columns))
        for at in range(0, len(self), by):
            row = [_mean(column[at : at + by]) for column in self.columns]
            for place in masks:
                there = known_values(self.columns[place][at : at + by])
                row[place] = float(reduce(or_, map(int, there))) if there else nan
            thin.add(_mean(self.seconds[at : at + by]), row, reduce(or_, self.phases[at : at + by], 0))
        return thin


class Tally:
    """One phase: every column that is a number, and how often each set of reasons was seen."""

    def __init__(self, columns: Sequence[int], masks: frozenset[int]) -> None:
        self.samples = 0
        self.running = {place: Running() for place in columns if place not in masks}
        self.masks: dict[int, Counter[float]] = {place: Counter() for place in columns if place in masks}

    def add(self, block: Block, start: int, end: int) -> None:
        """The rows of a block from `start` to before `end`."""
        self.samples += end - start
        for place, running in self.running.items():
            running.add(block.columns[place][start:end])
        for place, seen in self.masks.items():
            if len(seen) < _MOST_MASKS:
                seen.update(known_values(block.columns[place][start:end]))

    def join(self, other: "Tally") -> "Tally":
        """Both together; the other one is the later."""
        both = Tally((), frozenset())
        both.samples = self.samples + other.samples
        both.running = {place: running.join(other.running[place]) for place, running in self.running.items()}
        both.masks = {place: seen + other.masks[place] for place, seen in self.masks.items()}
        return both


class Running:
    """Count, sum, extremes and the last one of a column."""

    __slots__ = ("count", "high", "last", "low", "total")

    def __init__(self) -> None:
        self.count, self.total, self.low, self.high, self.last = 0, 0.0, inf, -inf, nan

    def add(self, values: "array[float]") -> None:
        """Some values more; those that are NaN are none."""
        if there := known_values(values):
            self.count += len(there)
            self.total += sum(there)
            low, high = min(there), max(there)
            self.low, self.high = min(self.low, low), max(self.high, high)
            self.last = there[-1]

    def join(self, other: "Running") -> "Running":
        """Both together; the other one is the later."""
        both = Running()
        both.count, both.total = self.count + other.count, self.total + other.total
        both.low, both.high = min(self.low, other.low), max(self.high, other.high)
        both.last = other.last if other.count else self.last
        return both


class SampledRows:
    """Written by one thread, read and annotated by many; a lock is never held for longer than a block takes."""

    def __init__(self, columns: Sequence[str], devices: Sequence[Device]) -> None:
        self.columns, self.devices = tuple(columns), tuple(devices)
        self._masks = frozenset(at for at, name in enumerate(columns) if name.endswith(REASON_BITS))
        self._summed = tuple(at for at, name in enumerate(columns) if not name.startswith(CORE))
        self._series = Series(len(columns), self._masks, self._add_idle)
        self._tallies = {phase: self._new_tally() for phase in (*PHASE_BITS, _IDLE)}
        self._lasted = {phase: SpanUnion() for phase in PHASE_BITS}
        self._lock = Lock()
        self.samples = 0
        self.first_s, self.last_s = inf, inf

    def add(self, seconds: float, row: Sequence[float]) -> None:
        with self._lock:
            self._series.add(seconds, row)
            self.samples += 1
            self.first_s, self.last_s = min(self.first_s, seconds), seconds

    def note(self, span: Span) -> None:
        """Count the rows of the span to its phase; a row that another span has brought there counts no second time."""
        bit = PHASE_BITS.get(span.phase)
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
                    for at in range(first, last):
                        block.phases[at] |= bit
            if len(block) and block.seconds[0] < span.start_s:
                break

    def phases(self) -> tuple[PhaseTelemetry, ...]:
        """What each phase comes to so far; those without samples and without time are left out."""
        idle, idle_s = self._idle()
        found = []
        for phase in get_args(Phase):
            with self._lock:
                tally = idle if phase == _IDLE else self._tallies[phase].join(self._new_tally())
                seconds = idle_s if phase == _IDLE else self._lasted[phase].seconds
            if tally.samples or seconds:
                found.append(phase_telemetry(phase, seconds, tally, self.columns, self.devices))
        return tuple(found)

    def means_between(self, start_s: float, end_s: float) -> dict[str, float]:
        """Means by column in a stretch of time, maxima that matter with `_max` at the end, and shares of reasons."""
        tally = self._new_tally()
        for block in self._blocks():
            with self._lock:
                first, last = block.between(start_s, end_s)
                if first < last:
                    tally.add(block, first, last)
        seen = {}
        for name, running in ((self.columns[place], one) for place, one in tally.running.items() if one.count):
            seen[name] = running.total / running.count
            if name.endswith(_MAXIMA):
                seen[f"{name}_max"] = running.high
        for device in self.devices:
            shares = reason_shares(device, tally, self.columns)
            seen |= {f"{device.prefix}reason_{name}": share for name, share in shares.items()}
        return seen

    def phases_since(self, since_s: float) -> tuple[PhaseTelemetry, ...]:
        """What each phase comes to by the rows since a moment alone; a row of two phases counts to both."""
        tallies = {phase: self._new_tally() for phase in get_args(Phase)}
        for block in self._blocks():
            with self._lock:
                start, end = block.between(since_s, inf)
                for at in range(start, end):
                    for phase, tally in tallies.items():
                        if block.phases[at] & PHASE_BITS.get(phase, 0) or (phase == _IDLE and not block.phases[at]):
                            tally.add(block, at, at + 1)
        every_s = (self.last_s - self.first_s) / (self.samples - 1) if self.samples > 1 else 0.0
        return tuple(
            phase_telemetry(phase, tally.samples * every_s, tally, self.columns, self.devices)
            for phase, tally in tallies.items()
            if tally.samples
        )

    def blocks_with_rows(self) -> list[tuple[Block, int]]:
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

    def _add_idle(self, block: Block) -> None:
        """What was not claimed within the hour was idle; called with the lock held."""
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
            idle = self._tallies[_IDLE].join(fresh)
            every_s = (self.last_s - self.first_s) / (self.samples - 1) if self.samples > 1 else 0.0
        return idle, idle.samples * every_s


class Series:
    """Rows, oldest first; `on_old` is given each block of full rows before it is thinned."""

    def __init__(self, width: int, masks: frozenset[int], on_old: Callable[[Block], None]) -> None:
        self.width, self._masks, self._on_old = width, masks, on_old
        block_bytes = BLOCK_ROWS * (4 * width + 9)
        self._most = max(_FEWEST_BLOCKS, min(HOUR_ROWS // BLOCK_ROWS, LEVEL_BYTES // block_bytes))
        self._levels: list[deque[Block]] = [deque([Block(width)]) for _ in range(LEVELS)]

    def add(self, seconds: float, row: Sequence[float]) -> None:
        """One row more; now and then the oldest rows become fewer."""
        self._levels[0][-1].add(seconds, row)
        if len(self._levels[0][-1]) >= BLOCK_ROWS:
            self._open_next(0)

    def recent(self) -> Iterator[Block]:
        """The blocks at full resolution, newest first."""
        return reversed(self._levels[0])

    def blocks(self) -> Iterator[Block]:
        for level in reversed(self._levels):
            yield from level

    def _open_next(self, number: int) -> None:
        level = self._levels[number]
        level.append(Block(self.width))
        if len(level) <= self._most:
            return
        old = level.popleft()
        if number == 0:
            self._on_old(old)
        if number + 1 < LEVELS:
            thin, last = old.thin(THINNER, self._masks), self._levels[number + 1][-1]
            for at, seconds in enumerate(thin.seconds):
                last.add(seconds, [column[at] for column in thin.columns], thin.phases[at])
            if len(last) >= BLOCK_ROWS:
                self._open_next(number + 1)


class SpanUnion:
    """Stretches of time without overlaps, in order, and the sum of those that were let go."""

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []
        self._closed_s, self._floor_s = 0.0, -inf

    def add(self, start_s: float, end_s: float) -> None:
        """One stretch more; it may lie anywhere."""
        start_s = max(start_s, self._floor_s)
        if not start_s < end_s < inf:
            return
        first, last = bisect_left(self._ends, start_s), bisect_right(self._starts, end_s)
        if first < last:
            start_s, end_s = min(start_s, self._starts[first]), max(end_s, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start_s], [end_s]
        if len(self._starts) > MOST_PIECES:
            pieces = MOST_PIECES // 2
            self._closed_s += sum(self._ends[:pieces]) - sum(self._starts[:pieces])
            self._floor_s = self._ends[pieces - 1]
            del self._starts[:pieces], self._ends[:pieces]

    def pieces(self) -> list[tuple[float, float]]:
        return list(zip(self._starts, self._ends, strict=True))

    @property
    def seconds(self) -> float:
        return self._closed_s + sum(end - start for start, end in self.pieces())


def phase_telemetry(
    phase: Phase, seconds: float, tally: Tally, columns: Sequence[str], devices: Sequence[Device]
) -> PhaseTelemetry:
    """All devices in one phase."""
    stats = {
        columns[place]: Stat(mean=one.total / one.count, low=one.low, high=one.high, last=one.last, samples=one.count)
        for place, one in tally.running.items()
        if one.count
    }
    gpus = []
    for device in devices:
        figures = {n.removeprefix(device.prefix): stat for n, stat in stats.items() if n.startswith(device.prefix)}
        reasons = reason_shares(device, tally, columns)
        gpus.append(GpuTelemetry(index=device.number, name=device.name, figures=figures, reasons=reasons))
    prefixes = tuple(device.prefix for device in devices)
    host = {name: stat for name, stat in stats.items() if not name.startswith(prefixes)}
    seconds = max(0.0, seconds)
    return PhaseTelemetry(phase=phase, seconds=seconds, samples=tally.samples, gpus=tuple(gpus), host=host)


def reason_shares(device: Device, tally: Tally, columns: Sequence[str]) -> dict[str, float]:
    """The share of the samples in which each reason was set, the most frequent first."""
    wanted = device.prefix + REASON_BITS
    bits = next((seen for place, seen in tally.masks.items() if columns[place] == wanted), Counter[float]())
    shares: Counter[str] = Counter()
    for mask, times in bits.items():
        for name in device.reason_names(int(mask)):
            shares[name] += times
    return {name: round(times / bits.total(), _DIGITS) for name, times in shares.most_common()}


def _runs(block: Block, start: int, end: int, bits: int) -> Iterator[tuple[int, int]]:
    first = start
    for at in range(start, end):
        if block.phases[at] & bits:
            if first < at:
                yield first, at
            first = at + 1
    if first < end:
        yield first, end


def known_values(values: "array[float]") -> Sequence[float]:
    """The values without those that are missing; the usual case, with none missing, costs one addition each."""
    total = sum(values)
    return values if total == total else [value for value in values if value == value]  # noqa: PLR0124 (NaN is not)


def _mean(values: "array[float]") -> float:
    there = known_values(values)
    return sum(there) / len(there) if there else nan
