"""Measured moments as a curve: bins by requests at once, each with its middle and its spread, that never turn back.

More requests never make a step shorter: where a bin says so it is noise, and neighbours are drawn together. The spread
of a bin is that of its moments: what eight of ten moments with that load had.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from unslow.think.fleet.capacity_moments import Moment

FEWEST = 5
"""Moments of a bin: of fewer, the middle is chance."""
_EXACT = 16
"""Requests up to which each number has a bin of its own."""
_WIDER = 1.09
"""Each bin beyond, as a factor: eight to a doubling."""
_EDGE = 0.1
"""Of the moments lie below the low end of the spread, and as many above the high one."""


class At(NamedTuple):
    """A bin: seconds at so many requests."""

    requests: float
    low_s: float
    mid_s: float
    high_s: float
    samples: int


def gaps_of(moments: Iterable[Moment]) -> list[At]:
    """The seconds between two tokens over requests at once."""
    return curve((moment.requests, moment.gap_s) for moment in moments)


def first_tokens_of(moments: Iterable[Moment]) -> list[At]:
    """The seconds until the first token over requests at once."""
    return curve((m.requests, m.first_token_s) for m in moments if m.first_token_s is not None)


def curve(pairs: Iterable[tuple[float, float]]) -> list[At]:
    """Bins with enough moments, by growing load, whose seconds never fall."""
    bins: dict[int, list[tuple[float, float]]] = {}
    for requests, seconds in pairs:
        bins.setdefault(_bin(requests), []).append((requests, seconds))
    found = [_at(bins[number]) for number in sorted(bins) if len(bins[number]) >= FEWEST]
    return _never_falling(found)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values, between the two that are nearest."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def spread(values: Iterable[float]) -> tuple[float, float, float]:
    """The ends that eight of ten lie between, and the middle."""
    ordered = sorted(values)
    return quantile(ordered, _EDGE), quantile(ordered, 0.5), quantile(ordered, 1 - _EDGE)


def seconds_at(points: Sequence[At], requests: float, which: Callable[[At], float]) -> float:
    """Between bins on a straight line; outside as at the nearest end."""
    if requests <= points[0].requests:
        return which(points[0])
    for left, right in pairwise(points):
        if requests <= right.requests:
            share = (requests - left.requests) / (right.requests - left.requests)
            return which(left) + share * (which(right) - which(left))
    return which(points[-1])


def _bin(requests: float) -> int:
    if requests < _EXACT:
        return max(1, round(requests))
    return _EXACT + round(math.log(requests / _EXACT) / math.log(_WIDER))


def _at(members: list[tuple[float, float]]) -> At:
    requests = quantile(sorted(pair[0] for pair in members), 0.5)
    low, mid, high = spread(pair[1] for pair in members)
    return At(max(1.0, requests), low, mid, high, len(members))


def _never_falling(found: list[At]) -> list[At]:
    """Each end of the spread, and the middle, for itself."""
    weights = [at.samples for at in found]
    low, mid, high = (_risen([at[column] for at in found], weights) for column in (1, 2, 3))
    return [at._replace(low_s=low[n], mid_s=mid[n], high_s=high[n]) for n, at in enumerate(found)]


def _risen(values: Sequence[float], weights: Sequence[int]) -> list[float]:
    """The nearest values that never fall: neighbours that do are replaced by their mean, by weight."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        block = (value, float(weight), 1)
        while blocks and blocks[-1][0] > block[0]:
            mean, heavy, count = blocks.pop()
            total = heavy + block[1]
            block = ((mean * heavy + block[0] * block[1]) / total, total, count + block[2])
        blocks.append(block)
    return [mean for mean, _, count in blocks for _ in range(count)]
