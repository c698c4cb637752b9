"""Running summaries by phase: however many samples come, a few numbers for each column."""

from array import array
from collections import Counter
from collections.abc import Sequence
from math import inf, nan

from unslow.facts.telemetry import Stat
from unslow.look.sampler.block import Block, known

_MOST_MASKS = 256  # different sets of reasons; a driver that invents more is not believed


class Running:
    """Count, sum, extremes and the last one of a column."""

    __slots__ = ("count", "high", "last", "low", "total")

    def __init__(self) -> None:
        self.count, self.total, self.low, self.high, self.last = 0, 0.0, inf, -inf, nan

    def add(self, values: "array[float]") -> None:
        """Some values more; those that are NaN are none."""
        there = known(values)
        if there:
            self.count += len(there)
            self.total += sum(there)
            low, high = min(there), max(there)
            self.low, self.high = min(self.low, low), max(self.high, high)
            self.last = there[-1]

    def joined(self, other: "Running") -> "Running":
        """Both together; the other one is the later."""
        both = Running()
        both.count, both.total = self.count + other.count, self.total + other.total
        both.low, both.high = min(self.low, other.low), max(self.high, other.high)
        both.last = other.last if other.count else self.last
        return both

    def stat(self) -> Stat:
        """As a fact; only for one that has values."""
        return Stat(mean=self.total / self.count, low=self.low, high=self.high, last=self.last, samples=self.count)


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
                seen.update(known(block.columns[place][start:end]))

    def joined(self, other: "Tally") -> "Tally":
        """Both together; the other one is the later."""
        both = Tally((), frozenset())
        both.samples = self.samples + other.samples
        both.running = {place: running.joined(other.running[place]) for place, running in self.running.items()}
        both.masks = {place: seen + other.masks[place] for place, seen in self.masks.items()}
        return both
