"""How much faster, from pairs of rounds: a ratio, and the interval that holds the true one in 95 of 100 cases.

Both of a pair meet the same minute, so only their ratio counts. The middle is that of Hodges and Lehmann (the median of
the means of any two), and the interval is what Wilcoxon's signed ranks do not exclude: neither asks for normal noise,
and of a dozen rounds one in which somebody else was busy hardly moves them. Five rounds or fewer do not reach 95 % that
way: there it is Student's t, which is wide, as it should be.
"""

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import NamedTuple

from unslow.think.bench.pairs import typical
from unslow.think.bench.spread import CONFIDENCE
from unslow.think.bench.student import quantile

MOST_EXACT = 60
"""Pairs whose ranks are counted one by one; more of them are as good as normal."""
_LARGEST_LOG = 41.0


class Gain(NamedTuple):
    """A speed-up in logarithms, more than nothing meaning faster; of a single pair the ends are endless."""

    middle: float
    low: float
    high: float
    pairs: int

    @property
    def reach(self) -> float:
        """How far the interval goes from the middle, on its longer side."""
        return max(self.high - self.middle, self.middle - self.low)


def gain_of(gains: Sequence[float], confidence: float = CONFIDENCE) -> Gain:
    """The gain that these pairs tell; at least one."""
    if 2.0 ** (1 - len(gains)) <= 1 - confidence:  # all on one side is rarer than that by chance
        walsh = sorted((a + b) / 2 for a, b in combinations_with_replacement(gains, 2))
        skipped = _left_out(len(gains), confidence)
        return Gain(typical(gains), walsh[skipped], walsh[-1 - skipped], len(gains))
    middle = statistics.median(gains)
    if len(gains) == 1:
        return Gain(middle, -_LARGEST_LOG, _LARGEST_LOG, 1)
    mean = statistics.fmean(gains)
    half = quantile(confidence, len(gains) - 1) * statistics.stdev(gains) / math.sqrt(len(gains))
    return Gain(middle, min(mean - half, middle), max(mean + half, middle), len(gains))


@lru_cache(maxsize=1024)
def _left_out(count: int, confidence: float) -> int:
    """How many of the means of two lie outside on each side: the largest rank sum that is rarer than that."""
    tail = (1 - confidence) / 2
    if count > MOST_EXACT:
        spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        return max(0, int(count * (count + 1) / 4 + statistics.NormalDist().inv_cdf(tail) * spread) - 1)
    ways, total, below = _rank_sums(count), 2**count, 0
    left_out = -1
    for number in ways:
        below += number
        if below > tail * total:
            break
        left_out += 1
    return max(0, left_out)


def _rank_sums(count: int) -> list[int]:
    """In how many of the 2^n ways of signs the positive ranks sum to 0, 1, 2, ..."""
    ways = [1] + [0] * (count * (count + 1) // 2)
    for rank in range(1, count + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    return ways
