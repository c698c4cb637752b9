"""Finds the levels of a noisy series: where it changes from one to another, robust against single outliers.

A series is split where two levels describe it best, if they differ clearly against its own noise, and each side again.
The noise is that of neighbours, so that a change of level is not taken for noise.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

CLEAR = 4.5
"""Standard errors between two levels: the largest of a few hundred splits of pure noise hardly reaches four."""
_OF_NORMAL = 1.4826  # the standard deviation of normal noise over its median absolute deviation
_OF_MEDIANS = 1.2533  # the standard error of a median over that of a mean
_FEWEST, _MANY = 2, 12
ROUNDING = 1e-9


class Level(NamedTuple):
    """A stretch of the series, from `start` up to but not including `end`, and its median."""

    start: int
    end: int
    value: float


def noise(values: Sequence[float]) -> float:
    """The standard deviation of a value around its level, from the differences of neighbours."""
    steps = [abs(b - a) for a, b in pairwise(values)]
    return _OF_NORMAL * statistics.median(steps) / math.sqrt(2) if steps else 0.0


def levels(values: Sequence[float], least: float) -> list[Level]:
    """The levels in their order; neighbours differ by at least that share of the higher one."""
    if not values:
        return []
    middle = statistics.median(values)
    smallest = max(noise(values), abs(middle) * least / 20)  # a series without any noise is not endlessly sure
    edges = _refined(values, [0, *_splits(values, 0, smallest, least), len(values)])
    found = [Level(a, b, statistics.median(values[a:b])) for a, b in pairwise(edges)]
    return _merged(values, found, least)


def _splits(values: Sequence[float], offset: int, deviation: float, least: float) -> list[int]:
    fewest = _FEWEST if len(values) < _MANY else _FEWEST + 1
    if len(values) < 2 * fewest:
        return []
    at = _best(values, fewest)
    if _distance(values, at, deviation) < CLEAR or _share(values, at) < least:
        return []
    before = _splits(values[:at], offset, deviation, least)
    return [*before, offset + at, *_splits(values[at:], offset + at, deviation, least)]


def _best(values: Sequence[float], fewest: int) -> int:
    """Where two levels describe the series best; of places that are equally good but for rounding, the first."""
    off = {at: _off(values[:at]) + _off(values[at:]) for at in range(fewest, len(values) - fewest + 1)}
    least = min(off.values())
    return next(at for at, total in off.items() if total <= least + ROUNDING * abs(least))


def _off(values: Sequence[float]) -> float:
    """How far the values are from their median, all together."""
    middle = statistics.median(values)
    return sum(abs(value - middle) for value in values)


def _refined(values: Sequence[float], edges: list[int]) -> list[int]:
    """Each split where it is best between its neighbours: the first ones were made before there were others."""
    for n in range(1, len(edges) - 1):
        edges[n] = edges[n - 1] + _best(values[edges[n - 1] : edges[n + 1]], _FEWEST)
    return edges


def _distance(values: Sequence[float], at: int, deviation: float) -> float:
    """How many standard errors lie between the medians of the two sides."""
    apart = abs(statistics.median(values[:at]) - statistics.median(values[at:]))
    return apart / (_OF_MEDIANS * deviation * math.sqrt(1 / at + 1 / (len(values) - at)) or 1e-12)


def _share(values: Sequence[float], at: int) -> float:
    sides = statistics.median(values[:at]), statistics.median(values[at:])
    return 1 - min(sides) / max(sides) if max(sides) > 0 else 0.0


def _merged(values: Sequence[float], found: list[Level], least: float) -> list[Level]:
    """Neighbours that turn out alike are one level."""
    kept: list[Level] = []
    for level in found:
        before = kept[-1] if kept else None
        if before and min(before.value, level.value) > (1 - least) * max(before.value, level.value):
            kept[-1] = Level(before.start, level.end, statistics.median(values[before.start : level.end]))
        else:
            kept.append(level)
    return kept


class Trend(NamedTuple):
    """A steady change: what the series gains from its first to its last value, over its median; and how sure."""

    change: float
    chance: float
    """That noise alone would rank the values so well, by Mann and Kendall."""


def trend(values: Sequence[float]) -> Trend:
    """The slope that half of all pairs exceed, after Theil and Sen, over the whole series."""
    count, middle = len(values), statistics.median(values)
    pairs = [(j - i, values[j] - values[i]) for i in range(count) for j in range(i + 1, count)]
    if not pairs or middle <= 0:
        return Trend(0.0, 1.0)
    slope = statistics.median(rise / run for run, rise in pairs)
    score = sum((rise > 0) - (rise < 0) for _, rise in pairs)
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    z = max(0, abs(score) - 1) / deviation
    return Trend(slope * (count - 1) / middle, math.erfc(z / math.sqrt(2)))


def seen_from(values: Sequence[float]) -> float:
    """The smallest change in the middle of the series that would be found, over its median."""
    middle = statistics.median(values)
    return CLEAR * _OF_MEDIANS * noise(values) * math.sqrt(4 / len(values)) / middle if middle > 0 else 1.0


def two_kinds(values: Sequence[float], least: float) -> tuple[float, float] | None:
    """The two speeds of a series that keeps changing between them; None where it does not, or is too short."""
    found = _two_heaps(values, least)
    if found is None:
        return None
    is_high = [value > sum(found) / 2 for value in values]
    changes = sum(a != b for a, b in pairwise(is_high))
    return found if changes > len(values) / 4 else None


def _two_heaps(values: Sequence[float], least: float) -> tuple[float, float] | None:
    ordered = sorted(values)
    fewest = max(3, len(ordered) // 7)
    gaps = [(ordered[at] - ordered[at - 1], at) for at in range(fewest, len(ordered) - fewest + 1)]
    if not gaps:
        return None
    at = max(gaps)[1]
    low, high = ordered[:at], ordered[at:]
    below, above = statistics.median(low), statistics.median(high)
    within = _OF_NORMAL * sum(statistics.median(abs(v - m) for v in side) for side, m in ((low, below), (high, above)))
    return (below, above) if above - below > max(3.5 * within, least * above) else None
