"""Differences between two things that were measured in pairs, one right after the other, and what they come to."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from unslow.think.bench.spread import CONFIDENCE, FEWEST_FOR_ORDER, outermost_rank
from unslow.think.bench.student import quantile


class Difference(NamedTuple):
    """The median of a few differences, and where it lies with 95 % confidence."""

    middle: float
    low: float
    high: float

    @property
    def told_apart(self) -> bool:
        """Whether it is more than nothing."""
        return self.low > 0


def difference_of(values: Sequence[float]) -> Difference:
    """The median of at least one difference: its interval lies between two of them where there are enough of them.

    Fewer give Student's interval, which is wide. A single one tells nothing about noise, so its interval holds zero.
    """
    ordered, middle = sorted(values), statistics.median(values)
    if len(ordered) >= FEWEST_FOR_ORDER:
        skipped = outermost_rank(len(ordered))
        return Difference(middle, ordered[skipped], ordered[-1 - skipped])
    if len(ordered) == 1:
        return Difference(middle, min(0.0, middle), max(0.0, middle))
    half = quantile(CONFIDENCE, len(ordered) - 1) * statistics.stdev(ordered) / len(ordered) ** 0.5
    mean = statistics.fmean(ordered)
    return Difference(middle, min(mean - half, middle), max(mean + half, middle))
