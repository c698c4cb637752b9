"""Whether the same depth takes longer later: what changes with time is not the depth's doing."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from unslow.think.bench.depth_fit import Reading

CLEAR = math.log(1.12)
"""A change below it may be a clock that settles."""
SURE = 4.0
"""Standard errors."""
FEWEST_PAIRS, FEWEST_CHANGED = 3, 2
"""Depths that were read twice, and those of them that changed: one alone is a disturbance that may be over."""
LEAST_NOISE = 0.015
"""Of the logarithm of a pair: those that agree better do so by chance."""


class Change(NamedTuple):
    """How the same depths changed from their first reading to their last, as a logarithm."""

    log: float
    per_s: float
    """Where it came little by little; else nought."""
    at_s: float | None
    """The first reading after it, where it came at one moment."""

    @property
    def times(self) -> float:
        """How many times longer a token took at last."""
        return math.exp(self.log)


class _Fitted(NamedTuple):
    change: Change
    left_over: float
    error: float


class _Pair(NamedTuple):
    first: Reading
    last: Reading

    @property
    def gap_s(self) -> float:
        return self.last.at_s - self.first.at_s

    @property
    def log(self) -> float:
        return math.log(self.last.seconds / self.first.seconds)


def change_over_time(readings: Sequence[Reading]) -> Change | None:
    """A change from one time to another at the same depth, whether little by little or at one moment; None for none."""
    pairs = _pairs(readings)
    if len(pairs) < FEWEST_PAIRS:
        return None
    moments = sorted(r.at_s for r in readings)[1:]
    tried = [_drawn(pairs, [p.gap_s for p in pairs], None)]
    tried += [_drawn(pairs, [float(p.first.at_s < at <= p.last.at_s) for p in pairs], at) for at in moments]
    best = min((one for one in tried if one), key=lambda one: one.left_over, default=None)
    if best is None or abs(best.change.log) < CLEAR or abs(best.change.log) < SURE * best.error:
        return None
    return best.change


def _drawn(pairs: Sequence["_Pair"], shape: Sequence[float], at_s: float | None) -> "_Fitted | None":
    """The change that explains the pairs best, if each has changed in proportion to its entry of the shape."""
    weight = sum(x * x for x in shape)
    if sum(x > 0 for x in shape) < FEWEST_CHANGED:
        return None
    size = sum(x * p.log for x, p in zip(shape, pairs, strict=True)) / weight
    left_over = sum((p.log - size * x) ** 2 for x, p in zip(shape, pairs, strict=True))
    noise = max(left_over / (len(pairs) - 1), LEAST_NOISE**2)
    most = max(shape)
    return _Fitted(
        Change(size * most, size if at_s is None else 0.0, at_s), left_over, most * math.sqrt(noise / weight)
    )


def without_change(readings: Sequence[Reading], change: Change) -> list[Reading]:
    """The readings as if nothing had changed with time."""
    at_s = change.at_s
    if at_s is None:
        return [r._replace(seconds=r.seconds * math.exp(-change.per_s * r.at_s)) for r in readings]
    return [r if r.at_s < at_s else r._replace(seconds=r.seconds * math.exp(-change.log)) for r in readings]


def _pairs(readings: Sequence[Reading]) -> list[_Pair]:
    """First and last reading of each depth, in the order of the first."""
    by_depth: dict[float, list[Reading]] = {}
    for reading in sorted(readings, key=lambda r: r.at_s):
        by_depth.setdefault(reading.depth, []).append(reading)
    return [_Pair(of[0], of[-1]) for of in by_depth.values() if len(of) > 1]
