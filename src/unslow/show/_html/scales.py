"""From values to places: scales that never leave their ends, and ticks at numbers that people count in."""

from dataclasses import dataclass
from math import ceil, floor, isfinite, log2, log10
from typing import Protocol

MOST, LEAST = 1e18, 1e-18
"""What is larger (a broken counter) is drawn as this, what is smaller as nothing: differences and logarithms of them
stay finite."""
_STEPS = (1, 2, 5, 10)
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
"""Steps of a clock: nobody reads off 20 s of a minute's third."""


class Scale(Protocol):
    """Where a value is drawn."""

    def at(self, value: float) -> float:
        """Its place, never beyond the ends."""
        ...


@dataclass(frozen=True, slots=True)
class Linear:
    """Equal steps are equally long."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Its place, never beyond the ends."""
        return _between(_share(sane(value), self.low, self.high), self.start, self.end)


@dataclass(frozen=True, slots=True)
class Log:
    """Equal factors are equally long; what is not above zero lies at the low end."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Its place, never beyond the ends."""
        value = max(self.low, sane(value))
        return _between(_share(log10(value), log10(self.low), log10(self.high)), self.start, self.end)


def sane(value: float) -> float:
    """The value, or the nearest that can be drawn."""
    if isinstance(value, float) and not isfinite(value):
        return MOST if value > 0 else -MOST if value < 0 else 0.0
    return float(max(-MOST, min(MOST, value))) if abs(value) >= LEAST else 0.0


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.0


def _between(share: float, start: float, end: float) -> float:
    return start + (end - start) * max(0.0, min(1.0, share))


def step(span: float, most: int) -> float:
    """The smallest step of 1, 2 or 5 that needs at most so many of them."""
    if span <= 0:
        return 1.0
    rough = span / max(1, most)
    power = 10.0 ** floor(log10(rough))
    return next(power * nice for nice in _STEPS if power * nice >= rough * (1 - 1e-9))


def ticks(low: float, high: float, most: int) -> tuple[float, ...]:
    """Round numbers from low to high."""
    return _multiples(low, high, step(high - low, most))


def clock_ticks(high: float, most: int) -> tuple[float, ...]:
    """Seconds from 0: in steps of a clock from a second on."""
    rough = high / max(1, most)
    if rough <= 1:
        return ticks(0, high, most)
    return _multiples(0, high, next((s for s in _SECONDS if s >= rough), None) or step(high, most))


def _multiples(low: float, high: float, by: float) -> tuple[float, ...]:
    first, last = ceil(low / by - 1e-9), floor(high / by + 1e-9)
    return tuple(number * by for number in range(first, last + 1))


def top(high: float, most: int) -> float:
    """The first round number that is not below; 1 where all is zero."""
    if high <= 0:
        return 1.0
    by = step(high, most)
    return ceil(high / by - 1e-9) * by


def decades(low: float, high: float, most: int) -> tuple[float, ...]:
    """Powers of ten from low to high, every second or third where they are many."""
    first, last = ceil(log10(low) - 1e-9), floor(log10(high) + 1e-9)
    by = max(1, ceil((last - first + 1) / max(1, most)))
    return tuple(10.0**power for power in range(first, last + 1, by))


def doublings(low: float, high: float, most: int) -> tuple[float, ...]:
    """Powers of two from low to high, every second or fourth where they are many."""
    first, last = ceil(log2(low) - 1e-9), floor(log2(high) + 1e-9)
    by = max(1, ceil((last - first + 1) / max(1, most)))
    return tuple(2.0**power for power in range(first, last + 1, by))
