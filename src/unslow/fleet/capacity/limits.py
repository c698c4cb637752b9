"""Measured moments as a curve, the load beyond it by physics, and what ends it: speed, first token, cache, slots.

More requests never make a step shorter: where a bin says so it is noise, and neighbours are drawn together. The
spread of a bin is that of its moments: what eight of ten moments with that load had.

A step for n requests takes a + b * n: the weights are read once for all, and each request adds its own cache and
arithmetic. So with more requests no step is shorter, and none grows faster than the requests do. Where physics knows
the machine, it also knows from which load on arithmetic takes longer than reading, which no measurement below that
load shows: the slower of the two counts, and the interval holds both.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import msgspec

from unslow.think.case.view import CaseView
from unslow.think.stats.depth import Point, line_through

SPEED, FIRST, CACHE, PLACES = "decode speed", "time to first token", "KV cache", "slots"
UNSEEN = "nothing measured"
FULL = 0.9  # Of the cache in use: from there on the next conversation soon finds no room
FEWEST = 5  # Moments of a bin: of fewer, the middle is chance
_EXACT = 16  # Requests up to which each number has a bin of its own
_WIDER = 1.09  # Each bin beyond, as a factor: eight to a doubling
_EDGE = 0.1  # Of the moments lie below the low end of the spread, and as many above the high one
FARTHEST = 4.0  # Times the highest load that was seen: farther than that a line through what was seen says nothing
APART = 1.4  # The highest load over the lowest: of loads closer together nobody can tell what one more request adds
NEAR = 4.0
"""The line is that of loads down to the highest over this: a step bends upwards where arithmetic begins to decide."""
DOUBT = 0.35
"""Of the logarithm of how much farther it goes: how wrong the simulated growth may be, either way; at twice the load
27 %. Chosen on six curves of one GPU so that four of five steps lie in the interval, which is no proof for others:
`lab/fleet/capacity_on_gpu.py` prints that beside what it is on a model that was left out."""
_NOISE = 0.02
"""The least error of a bin, as a share of it: windows of the same load differ by more than chance explains."""
_EIGHT_OF_TEN = 1.28  # Standard errors that hold eight of ten values
_ENOUGH_CACHE = 0.05  # Of the cache in use: of less, rounding decides what one request takes
_WAITED = 0.5  # Requests that wait, in the mean of a window: from there on there were no places left
_MORE = 1.2  # Times as many: more than windows of one load differ by
_STEPS = 40  # Halvings of a span of requests
Seconds = Callable[[float], tuple[float, float, float]]
"""The seconds that so many requests at once take, which never fall: low, middle and high."""
StepGrowth = Callable[[float], float | None]
"""How many times as long as for one request a step takes for so many, by physics; None where it can't be told."""


class Moment(NamedTuple):
    """One instance over one short window."""

    requests: float  # How many requests shared the step in which a token was made, in the mean over tokens
    gap_s: float  # Seconds between two tokens of one request
    first_token_s: float | None = None
    waiting: float | None = None
    cache_used: float | None = None


class Load(NamedTuple):
    """Requests at once of a whole group over the time that was looked at."""

    mean: float | None = None
    peak: float | None = None  # None where nobody tells how many requests there were, which is not that there were none
    uneven: float | None = None
    """How many times the mean of all instances the fullest tenth of them had, in the busiest moments."""


class InstanceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Instances with the same runtime, model and devices."""

    runtime: str
    model: str
    devices: str
    instances: int
    gpus_each: int | None = None
    moments: tuple[Moment, ...] = ()
    load: Load = Load()
    places: float | None = None  # Requests that one instance answers at once, where it tells
    case: CaseView | None = None  # One of them as facts, for physics
    without: str = ""  # Why there are no moments, where there are none


class At(NamedTuple):
    """A bin: seconds at so many requests."""

    requests: float
    low_s: float
    mid_s: float
    high_s: float
    samples: int


class Extrapolation(NamedTuple):
    """A curve with what lies beyond its ends."""

    points: Sequence[At]
    start_s: float
    each_s: float
    each_error_s: float
    has_slope: bool  # Whether the loads lie far enough apart to tell what one more request adds
    longer: StepGrowth | None = None
    doubt: float = DOUBT

    @property
    def last(self) -> float:
        """The highest load that was measured."""
        return self.points[-1].requests

    @property
    def farthest(self) -> float:
        """The highest load of which anything can be told."""
        return self.last * FARTHEST

    def seconds(self, requests: float) -> tuple[float, float, float]:
        """Low, middle and high."""
        ends = map(attrgetter, ("low_s", "mid_s", "high_s"))
        low, mid, high = (seconds_at(self.points, requests, end) for end in ends)
        if requests > self.last:
            less, middle, more = self._growth(requests)
            return low * less, mid * middle, high * more
        if requests < self.points[0].requests:
            # What a step for fewer than were ever seen takes, as a share of that for the fewest
            first = self.points[0].requests
            known = None if self.has_slope else self._by_physics(requests, first)
            start_s = max(self.start_s, 0.0)
            share = known or (start_s + self.each_s * requests) / (start_s + self.each_s * first)
            return low * share, mid * share, high * share
        return low, mid, high

    def _growth(self, requests: float) -> tuple[float, float, float]:
        """How many times as long as at the highest measured load; the ends, and the middle."""
        farther, last_s = requests / self.last, self.points[-1].mid_s
        doubt = farther**self.doubt
        # By a line through the highest measured load, which starts above nothing; its slope, and its ends
        slopes = [self.each_s + n * _EIGHT_OF_TEN * self.each_error_s for n in (-1, 0, 1)]
        slopes = [min(max(0.0, each_s), last_s / self.last) for each_s in slopes]
        least, middle, most = (1 + each_s * (requests - self.last) / last_s for each_s in slopes)
        known = self._by_physics(requests, self.last)
        if known is not None:
            least, middle, most = min(least, known), max(middle, known), max(most, known)
        elif not self.has_slope:
            least, middle, most = 1.0, farther, farther
        return max(1.0, least / doubt), min(farther, max(1.0, middle)), min(farther, most * doubt)

    @property
    def can_extrapolate(self) -> bool:
        """Whether anything tells how it goes on outside of what was measured: other loads, or physics."""
        return self.has_slope or self.known_by_physics

    @property
    def known_by_physics(self) -> bool:
        return self._by_physics(self.last, self.last) is not None

    def _by_physics(self, requests: float, than: float) -> float | None:
        then, now = (self.longer(n) if self.longer else None for n in (requests, than))
        return then / now if then and now else None


class Limit(NamedTuple):
    """Requests at once of one instance, and what ends it."""

    what: str
    low: float
    mid: float
    high: float


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
        place = max(1, round(requests))
        if requests >= _EXACT:
            place = _EXACT + round(math.log(requests / _EXACT) / math.log(_WIDER))
        bins.setdefault(place, []).append((requests, seconds))
    found = []
    for _, those in sorted(bins.items()):
        if len(those) >= FEWEST:
            middle = quantile(sorted(requests for requests, _ in those), 0.5)
            found.append(At(max(1.0, middle), *spread(seconds for _, seconds in those), len(those)))
    # Each end of the spread, and the middle, for itself
    weights = [at.samples for at in found]
    low, mid, high = (_monotonic([at[column] for at in found], weights) for column in (1, 2, 3))
    return [at._replace(low_s=low[n], mid_s=mid[n], high_s=high[n]) for n, at in enumerate(found)]


def spread(values: Iterable[float]) -> tuple[float, float, float]:
    """The ends that eight of ten lie between, and the middle."""
    ordered = sorted(values)
    return quantile(ordered, _EDGE), quantile(ordered, 0.5), quantile(ordered, 1 - _EDGE)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values, between the two that are nearest."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _monotonic(values: Sequence[float], weights: Sequence[int]) -> list[float]:
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


def extrapolate(points: Sequence[At], longer: StepGrowth | None = None) -> Extrapolation:
    """The curve with the line through its bins, of which there is at least one; the high loads tell how it goes on."""
    last = points[-1].requests
    near = [point for point in points if point.requests >= last / NEAR]
    near = near if near[0].requests * APART <= last else list(points)
    # Of the middle of a bin, as a share
    errors = [_NOISE + (p.high_s - p.low_s) / (2 * _EIGHT_OF_TEN * p.mid_s * math.sqrt(p.samples)) for p in near]
    middles = [Point(p.requests, p.mid_s, error, p.samples) for p, error in zip(near, errors, strict=True)]
    line = line_through(middles) if len(near) > 1 else None
    if line is None or last < near[0].requests * APART:
        return Extrapolation(points, points[0].mid_s, 0.0, 0.0, has_slope=False, longer=longer)
    each = max(0.0, line.slope_s)
    start = line.start_s if line.slope_s > 0 else points[-1].mid_s
    # where bins lie off the line by more than their noise, the slope is less sure by as much
    off = max(1.0, math.sqrt(line.left_over / max(1, len(near) - 2)))
    return Extrapolation(points, start, each, line.slope_error_s * off, has_slope=True, longer=longer)


def seconds_at(points: Sequence[At], requests: float, which: Callable[[At], float]) -> float:
    """Between bins on a straight line; outside as at the nearest end."""
    if requests <= points[0].requests:
        return which(points[0])
    for left, right in pairwise(points):
        if requests <= right.requests:
            share = (requests - left.requests) / (right.requests - left.requests)
            return which(left) + share * (which(right) - which(left))
    return which(points[-1])


def limit_by_seconds(seconds: Seconds, goal_s: float, what: str, farthest: float) -> Limit:
    """The most requests whose seconds stay below the goal, no farther out than can be told."""
    low, mid, high = (_largest_load(seconds, column, goal_s, farthest) for column in (2, 1, 0))
    return Limit(UNSEEN if mid >= farthest else what, low, mid, high)


def _largest_load(seconds: Seconds, column: int, goal_s: float, farthest: float) -> float:
    """The largest load up to there whose seconds reach the goal; 0 where not even one does."""
    if seconds(1.0)[column] > goal_s:
        return 0.0
    if seconds(farthest)[column] <= goal_s:
        return farthest
    low, high = 1.0, farthest
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if seconds(middle)[column] <= goal_s else (low, middle)
    return low


def limit_by_cache(moments: Sequence[Moment]) -> Limit | None:
    """Requests that would fill the KV cache, each as long as those that were seen; None where nothing tells."""
    shares = [(m.requests, m.cache_used) for m in moments if m.cache_used and m.cache_used >= _ENOUGH_CACHE]
    return Limit(CACHE, *spread(requests / used for requests, used in shares)) if len(shares) >= FEWEST else None


def limit_by_slots(moments: Sequence[Moment], told: float | None) -> Limit | None:
    """What the runtime says it answers at once, else as many as it answered while others waited and memory was left."""
    if told:
        return Limit(PLACES, told, told, told)
    waited = [m.requests for m in moments if (m.waiting or 0.0) >= _WAITED and (m.cache_used or 0.0) < FULL]
    if len(waited) < FEWEST:
        return None
    low, mid, high = spread(waited)
    more = sum(m.requests > high * _MORE and (m.waiting or 0.0) < _WAITED for m in moments)
    # where others answered more with nobody waiting, it was not for want of places
    return Limit(PLACES, low, mid, high) if more < FEWEST else None


def tightest_limit(limits: Sequence[Limit]) -> Limit:
    """What ends it first; the interval is that of all together."""
    first = min(limits, key=lambda limit: limit.mid)
    return first._replace(low=min(limit.low for limit in limits), high=min(limit.high for limit in limits))
