"""A prediction is an interval; its nominal content is 80 %."""

from typing import NamedTuple

from unslow.facts.values import Origin

# How far the truth may lie from a figure of this origin, as a factor either way. Two publishers of the same card and
# quant differ by 9 % in the median, so nothing looked up is sharper than that.
SPREAD = {Origin.MEASURED: 1.10, Origin.REPORTED: 1.15, Origin.DATASHEET: 1.15, Origin.ESTIMATED: 2.0}


class Interval(NamedTuple):
    """Low, most likely, high."""

    low: float
    mid: float
    high: float

    def shifted(self, by: float) -> "Interval":
        """With so much more of what has no spread of its own."""
        return Interval(self.low + by, self.mid + by, self.high + by)


def around(value: float, factor: float) -> Interval:
    """The interval that reaches a factor down and up from a value."""
    return Interval(value / factor, value, value * factor)


def inverse(interval: Interval) -> Interval:
    """Seconds per token as tokens per second, or back."""
    return Interval(1 / interval.high, 1 / interval.mid, 1 / interval.low)
