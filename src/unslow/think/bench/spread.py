"""A figure over a few repeats: the median, and an interval that holds the true one in 95 of 100 cases.

From six repeats on, the interval lies between two of the measured values (order statistics): it holds whatever the
shape of the noise. Fewer repeats do not span 95 %: there it is Student's t on the logarithms, which takes the noise as
about log-normal, and is wide, as it should be. Two repeats have a range only. Either way the repeats are taken as
independent: what all of them share (where this process' memory landed, the clock of that minute) is between runs, and
no interval of one run can show it.
"""

import math
import statistics
from collections.abc import Sequence

from unslow.facts.bench import Spread
from unslow.think.bench.disagreement import disagreement
from unslow.think.bench.student import quantile

CONFIDENCE = 0.95
FEWEST_FOR_ORDER = 6
FEWEST_FOR_STUDENT = 3
"""Of two values Student's t spans orders of magnitude (its factor is 12.7): their range is all that can be said."""
_MAD_TO_SIGMA = 1.4826
_SMALL_SAMPLE = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
"""What makes the median absolute deviation of so few normal values right on average (Croux and Rousseeuw, 1992)."""
_LARGEST = 1e18


def spread_of(values: Sequence[float]) -> Spread:
    """The median of at least one value, with its interval; that of a single value has no width, and `count` says so."""
    ordered = sorted(values)
    low, high = _interval(ordered)
    return Spread(
        median=statistics.median(ordered),
        low=low,
        high=min(high, _LARGEST),
        count=len(ordered),
        spread=robust_spread(ordered),
        agree=not disagreement(values),
    )


def robust_spread(values: Sequence[float]) -> float:
    """The robust standard deviation over the median."""
    middle = statistics.median(values)
    return robust_deviation(values) / middle if middle > 0 else 0.0


def robust_deviation(values: Sequence[float]) -> float:
    """The standard deviation, from the median of the deviations, so that an outlier hardly counts."""
    middle = statistics.median(values)
    deviation = statistics.median(abs(value - middle) for value in values)
    return _MAD_TO_SIGMA * _small_sample(len(values)) * deviation


def _small_sample(count: int) -> float:
    return _SMALL_SAMPLE.get(count, count / (count - 0.8))


def _interval(ordered: Sequence[float]) -> tuple[float, float]:
    if len(ordered) >= FEWEST_FOR_ORDER:
        below = outermost_rank(len(ordered))
        return ordered[below], ordered[-1 - below]
    if len(ordered) < FEWEST_FOR_STUDENT or ordered[0] <= 0:
        return ordered[0], ordered[-1]
    logs = [math.log(value) for value in ordered]
    centre, reach = statistics.fmean(logs), quantile(CONFIDENCE, len(logs) - 1) * statistics.stdev(logs)
    half = reach / math.sqrt(len(logs))
    middle = statistics.median(ordered)
    return min(math.exp(max(centre - half, -700.0)), middle), max(math.exp(min(centre + half, 700.0)), middle)


def outermost_rank(count: int) -> int:
    """How many values may be left out on each side of the interval: the median is as likely above as below each."""
    outside, rank = 2 * _chance(count, 0), 0
    while True:
        outside += 2 * _chance(count, rank + 1)
        if outside > 1 - CONFIDENCE:
            return rank
        rank += 1


def _chance(count: int, below: int) -> float:
    """How likely so many of all values lie below the median; by logarithms, since a long run has thousands of them."""
    ways = math.lgamma(count + 1) - math.lgamma(below + 1) - math.lgamma(count - below + 1)
    return math.exp(ways - count * math.log(2))
