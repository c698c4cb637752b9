"""What can be read again and again, a few columns from one source; each as often as its cost allows."""

from collections.abc import Callable, Sequence
from math import ceil, nan
from typing import NamedTuple

REASON_BITS = "reason_bits"
"""The column with the driver's reasons for its clocks, as bits; summed up by name, not as a number."""
SELDOM_S = 0.5
"""Between two looks at what changes slowly or is counted by the kernel: a look after some rest finds its code and
data gone from the caches, and costs ten times what one in a row does. A rate loses nothing by it."""
CORE = "core"  # How the columns of single cores start: they are in the series, and in no summary

MOST_ROUNDS = 100  # However slow a reading is, and however often it failed: it gets its turn every this many rounds
_WORDS = 200
_LARGEST = 1e18
_STEADY = 0.8  # weight of the former cost: one reading that was interrupted must not make it rare
_OUTLIER = 4.0


class Device(NamedTuple):
    """A GPU: its number among all, its name, and what the bits of its reasons stand for."""

    number: int
    name: str
    reason_names: Callable[[int], list[str]] = lambda _bits: []

    @property
    def prefix(self) -> str:
        return f"gpu{self.number}_"

    def reading(
        self, what: str, read: "Callable[[float], Sequence[float]]", every_s: float = 0.0, columns: tuple[str, ...] = ()
    ) -> "Reading":
        """A question to this GPU; its only column is what it asks for, unless there are others."""
        return Reading(f"gpu{self.number} {what}", columns or (what,), read, self, every_s)


class Reading(NamedTuple):
    """One question to one source; `read(now)` gives a value for each column, NaN where there is none yet."""

    name: str
    columns: tuple[str, ...]
    read: Callable[[float], Sequence[float]]
    device: Device | None = None
    every_s: float = 0.0  # At least so far apart; 0 is every round


class Rate:
    """How fast a counter grows between two looks, which need not be equally far apart."""

    __slots__ = ("_before", "_when", "wraps_at")

    def __init__(self, wraps_at: float = 0.0) -> None:
        self._before, self._when = nan, nan
        self.wraps_at = wraps_at
        """Where a counter of few bits starts from zero again; 0 for one that never does."""

    def __call__(self, count: float, now: float) -> float:
        """Growth a second since the last look; NaN at the first, and where the counter began anew."""
        grown, seconds = count - self._before, now - self._when
        self._before, self._when = count, now
        if grown < 0:
            grown += self.wraps_at
        return grown / seconds if seconds > 0 and grown >= 0 else nan


class PacedReading:
    """A reading and its pace: one that costs twice the allowance is read every other round."""

    def __init__(self, reading: Reading, at: int, period_s: float) -> None:
        self.reading = reading
        self.least = max(1, round(reading.every_s / period_s))
        self.place = slice(at, at + len(reading.columns))
        self.cost_s = nan
        self.due = 0
        self.failures = 0

    def note_outcome(self, number: int, cost_s: float | None, allowance_s: float) -> None:
        """Note what it cost this time, None where it failed, and when it is due again."""
        if cost_s is None:  # wait longer each time before it is tried again
            self.failures += 1
            self.due = number + min(MOST_ROUNDS, 2 ** min(self.failures, 10))
            return
        self.failures = 0
        clipped = min(cost_s, _OUTLIER * self.cost_s) if self.cost_s > 0 else cost_s
        self.cost_s = _STEADY * self.cost_s + (1 - _STEADY) * clipped if self.cost_s >= 0 else clipped
        rounds = max(self.least, ceil(self.cost_s / allowance_s))
        self.due = number - number % self.least + min(MOST_ROUNDS, rounds)  # those of one pace stay together


class Reader:
    """The newest values of one device; written by one thread, taken by another.

    A reading may take this `share` of a period, on the clock that counts its cost.
    """

    def __init__(
        self,
        name: str,
        readings: Sequence[Reading],
        clock: Callable[[], float],
        cost_clock: Callable[[], float],
        period_s: float,
        share: float,
    ) -> None:
        self.name = name
        self.columns = tuple(
            f"{reading.device.prefix if reading.device else ''}{column}"
            for reading in readings
            for column in reading.columns
        )
        self.paced: list[PacedReading] = []
        for reading in readings:
            at = sum(len(p.reading.columns) for p in self.paced)
            self.paced.append(PacedReading(reading, at, period_s))
        self.unread: dict[str, str] = {}
        self.busy_since: float | None = None  # while it waits for an answer
        self._clock, self._cost_clock, self._allowance_s = clock, cost_clock, share * period_s
        self._empty = [nan] * len(self.columns)
        self._values = self._empty.copy()

    def round(self, number: int) -> None:
        """Read all that is due; what fails is listed, and keeps nothing else from being read."""
        self.busy_since = self._clock()
        before = self._cost_clock()
        for paced in self.paced:
            if paced.due > number:
                continue
            name, count = paced.reading.name, len(paced.reading.columns)
            try:
                values = paced.reading.read(self._clock())
                if len(values) != count:
                    raise ValueError(f"{len(values)} values for {count} columns")  # noqa: TRY301 (as any other failure)
                self._values[paced.place] = [value if -_LARGEST < value < _LARGEST else nan for value in values]
            except Exception as error:  # noqa: BLE001 (drivers, files and parsers of them fail in every way there is)
                self.unread[name] = (str(error) or type(error).__name__)[:_WORDS]
                paced.note_outcome(number, None, self._allowance_s)
                before = self._cost_clock()
            else:
                after = self._cost_clock()
                self.unread.pop(name, None)
                paced.note_outcome(number, after - before, self._allowance_s)
                before = after
        self.busy_since = None

    def take(self) -> list[float]:
        """The values that came since the last call; NaN for all others."""
        values, self._values = self._values, self._empty.copy()
        return values
