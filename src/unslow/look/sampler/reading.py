"""What can be read again and again: a few columns from one source."""

from collections.abc import Callable, Sequence
from math import nan
from typing import NamedTuple

REASON_BITS = "reason_bits"
"""The column with the driver's reasons for its clocks, as bits; summed up by name, not as a number."""
SELDOM_S = 0.5
"""Between two looks at what changes slowly or is counted by the kernel: a look after some rest finds its code and
data gone from the caches, and costs ten times what one in a row does. A rate loses nothing by it."""
CORE = "core"
"""How the columns of single cores start: they are in the series, and in no summary."""


class Device(NamedTuple):
    """A GPU: its number among all, its name, and what the bits of its reasons stand for."""

    number: int
    name: str
    reason_names: Callable[[int], list[str]] = lambda _bits: []

    @property
    def prefix(self) -> str:
        """How its columns start."""
        return f"gpu{self.number}_"


class Reading(NamedTuple):
    """One question to one source; `read(now)` gives a value for each column, NaN where there is none yet."""

    name: str
    columns: tuple[str, ...]
    read: Callable[[float], Sequence[float]]
    device: Device | None = None
    every_s: float = 0.0
    """At least so far apart; 0 is every round."""

    @property
    def flat_columns(self) -> tuple[str, ...]:
        """The columns with the name of the device in them."""
        prefix = self.device.prefix if self.device else ""
        return tuple(prefix + column for column in self.columns)


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
