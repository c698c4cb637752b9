"""What a load beyond the measured one would take: simulated, by the line through what was measured, within physics.

A step for n requests takes a + b * n: the weights are read once for all, and each request adds its own cache and
arithmetic. So with more requests no step is shorter, and none grows faster than the requests do. Where physics knows
the machine, it also knows from which load on arithmetic takes longer than reading, which no measurement below that load
shows: the slower of the two counts, and the interval holds both.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from unslow.think.bench.depth_fit import Point, line_through
from unslow.think.fleet.capacity_curve import At, seconds_at

FARTHEST = 4.0
"""Times the highest load that was seen: farther than that a line through what was seen says nothing."""
APART = 1.4
"""The highest load over the lowest: of loads closer together nobody can tell what one more request adds."""
NEAR = 4.0
"""The line is that of loads down to the highest over this: a step bends upwards where arithmetic begins to decide."""
DOUBT = 0.35
"""Of the logarithm of how much farther it goes: how wrong the simulated growth may be, either way; at twice the load
27 %. Chosen on six curves of one GPU so that four of five steps lie in the interval, which is no proof for others:
`lab/fleet/capacity_on_gpu.py` prints that beside what it is on a model that was left out."""
_NOISE = 0.02
"""The least error of a bin, as a share of it: windows of the same load differ by more than chance explains."""
_EIGHT_OF_TEN = 1.28
"""Standard errors that hold eight of ten values."""

Longer = Callable[[float], float | None]
"""How many times as long as for one request a step takes for so many, by physics; None where it can't be told."""


class Beyond(NamedTuple):
    """A curve with what lies beyond its ends."""

    points: Sequence[At]
    start_s: float
    each_s: float
    each_error_s: float
    sloped: bool
    """Whether the loads lie far enough apart to tell what one more request adds."""
    longer: Longer | None = None
    doubt: float = DOUBT

    @property
    def last(self) -> float:
        """The highest load that was measured."""
        return self.points[-1].requests

    def seconds(self, requests: float) -> tuple[float, float, float]:
        """Low, middle and high."""
        low, mid, high = (seconds_at(self.points, requests, which) for which in (_low, _mid, _high))
        if requests > self.last:
            less, middle, more = self._growth(requests)
            return low * less, mid * middle, high * more
        if requests < self.points[0].requests:
            share = self._shrunk(requests, self.points[0].requests)
            return low * share, mid * share, high * share
        return low, mid, high

    def _growth(self, requests: float) -> tuple[float, float, float]:
        """How many times as long as at the highest measured load; the ends, and the middle."""
        farther = requests / self.last
        doubt = farther**self.doubt
        lines = [self._risen(requests, self.each_s + n * _EIGHT_OF_TEN * self.each_error_s) for n in (-1, 0, 1)]
        known = self._by_physics(requests, self.last)
        least, middle, most = lines
        if known is not None:
            least, middle, most = min(least, known), max(middle, known), max(most, known)
        elif not self.sloped:
            least, middle, most = 1.0, farther, farther
        return max(1.0, least / doubt), min(farther, max(1.0, middle)), min(farther, most * doubt)

    def _risen(self, requests: float, each_s: float) -> float:
        """By a line with that slope through the highest measured load, which starts above nothing."""
        last_s = self.points[-1].mid_s
        each_s = min(max(0.0, each_s), last_s / self.last)
        return 1 + each_s * (requests - self.last) / last_s

    @property
    def told(self) -> bool:
        """Whether anything tells how it goes on outside of what was measured: other loads, or physics."""
        return self.sloped or self.known_by_physics

    @property
    def known_by_physics(self) -> bool:
        """Whether physics can tell of this machine."""
        return self._by_physics(self.last, self.last) is not None

    def _shrunk(self, requests: float, first: float) -> float:
        """What a step for fewer than were ever seen takes, as a share of that for the fewest."""
        known = None if self.sloped else self._by_physics(requests, first)
        start_s = max(self.start_s, 0.0)
        return known or (start_s + self.each_s * requests) / (start_s + self.each_s * first)

    def _by_physics(self, requests: float, than: float) -> float | None:
        then, now = (self.longer(n) if self.longer else None for n in (requests, than))
        return then / now if then and now else None


def beyond(points: Sequence[At], longer: Longer | None = None) -> Beyond:
    """The curve with the line through its bins, of which there is at least one; the high loads tell how it goes on."""
    last = points[-1].requests
    near = [point for point in points if point.requests >= last / NEAR]
    near = near if near[0].requests * APART <= last else list(points)
    line = line_through([Point(p.requests, p.mid_s, _error(p), p.samples) for p in near]) if len(near) > 1 else None
    if line is None or last < near[0].requests * APART:
        return Beyond(points, points[0].mid_s, 0.0, 0.0, sloped=False, longer=longer)
    each = max(0.0, line.slope_s)
    start = line.start_s if line.slope_s > 0 else points[-1].mid_s
    # where bins lie off the line by more than their noise, the slope is less sure by as much
    off = max(1.0, math.sqrt(line.left_over / max(1, len(near) - 2)))
    return Beyond(points, start, each, line.slope_error_s * off, sloped=True, longer=longer)


def _error(point: At) -> float:
    """Of the middle of a bin, as a share."""
    return _NOISE + (point.high_s - point.low_s) / (2 * _EIGHT_OF_TEN * point.mid_s * math.sqrt(point.samples))


def _low(at: At) -> float:
    return at.low_s


def _mid(at: At) -> float:
    return at.mid_s


def _high(at: At) -> float:
    return at.high_s
