"""A figure over a few repeats: the median, its 95 % interval, and whether the repeats are of one kind.

From six repeats on, the interval lies between two of the measured values (order statistics): it holds whatever the
shape of the noise. Fewer repeats do not span 95 %: there it is Student's t on the logarithms, which takes the noise
as about log-normal, and is wide, as it should be. Two repeats have a range only. Either way the repeats are taken as
independent: what all of them share (where this process' memory landed, the clock of that minute) is between runs, and
no interval of one run can show it.
"""

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from unslow.facts.bench import Spread

CONFIDENCE = 0.95
FEWEST_FOR_ORDER = 6
FEWEST_FOR_STUDENT = 3
"""Of two values Student's t spans orders of magnitude (its factor is 12.7): their range is all that can be said."""
FEWEST = 3
NOTICEABLE = 0.05
_APART = 4.0  # How many times farther off than the others are from each other an outlier is, or one group from another
_ONE_WAY = 0.8  # The share of pairs in order, less those out of order, that makes a trend
_SCATTER = 0.05
_MOST_PAIRED = 200
"""Values whose pairs are looked at: all pairs of the thousands that a long run has would fill the memory."""
_NUMBERS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_MAD_TO_SIGMA = 1.4826
_SMALL_SAMPLE = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
"""What makes the median absolute deviation of so few normal values right on average (Croux and Rousseeuw, 1992)."""
_LARGEST = 1e18
_TERMS, _CLOSE, _TINY = 400, 1e-12, 1e-300
_FARTHEST, _MOST_STEPS = 1e6, 60


class Difference(NamedTuple):
    """The median of a few differences, and where it lies with 95 % confidence."""

    middle: float
    low: float
    high: float

    @property
    def told_apart(self) -> bool:
        """Whether it is more than nothing."""
        return self.low > 0


def spread_of(values: Sequence[float]) -> Spread:
    """The median of at least one value, with its interval; that of a single value has no width, and `count` says so."""
    ordered = sorted(values)
    low, high = _interval(ordered)
    middle = statistics.median(ordered)
    return Spread(
        median=middle,
        low=low,
        high=min(high, _LARGEST),
        count=len(ordered),
        spread=robust_deviation(ordered) / middle if middle > 0 else 0.0,
        agree=not disagreement(values),
    )


def _interval(ordered: Sequence[float]) -> tuple[float, float]:
    if len(ordered) >= FEWEST_FOR_ORDER:
        below = outermost_rank(len(ordered))
        return ordered[below], ordered[-1 - below]
    if len(ordered) < FEWEST_FOR_STUDENT or ordered[0] <= 0:
        return ordered[0], ordered[-1]
    logs = [math.log(value) for value in ordered]
    centre, middle = statistics.fmean(logs), statistics.median(ordered)
    half = student_quantile(CONFIDENCE, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return min(math.exp(max(centre - half, -700.0)), middle), max(math.exp(min(centre + half, 700.0)), middle)


def outermost_rank(count: int) -> int:
    """How many values may be left out on each side of the interval: the median is as likely above as below each."""
    outside = 0.0
    for below in range(count + 1):
        # How likely so many lie below the median; by logarithms, since a long run has thousands of values
        ways = math.lgamma(count + 1) - math.lgamma(below + 1) - math.lgamma(count - below + 1)
        outside += 2 * math.exp(ways - count * math.log(2))
        if below and outside > 1 - CONFIDENCE:
            return below - 1
    return 0


def robust_deviation(values: Sequence[float]) -> float:
    """The standard deviation, from the median of the deviations, so that an outlier hardly counts."""
    middle, count = statistics.median(values), len(values)
    deviation = statistics.median(abs(value - middle) for value in values)
    return _MAD_TO_SIGMA * _SMALL_SAMPLE.get(count, count / (count - 0.8)) * deviation


def paired_difference(values: Sequence[float]) -> Difference:
    """The median of at least one difference: its interval lies between two of them where there are enough of them."""
    # Fewer give Student's interval, which is wide. A single one tells nothing about noise, so its interval holds zero.
    ordered, middle = sorted(values), statistics.median(values)
    if len(ordered) >= FEWEST_FOR_ORDER:
        skipped = outermost_rank(len(ordered))
        return Difference(middle, ordered[skipped], ordered[-1 - skipped])
    if len(ordered) == 1:
        return Difference(middle, min(0.0, middle), max(0.0, middle))
    half = student_quantile(CONFIDENCE, len(ordered) - 1) * statistics.stdev(ordered) / len(ordered) ** 0.5
    mean = statistics.fmean(ordered)
    return Difference(middle, min(mean - half, middle), max(mean + half, middle))


def disagreement(values: Sequence[float], *, lower_is_better: bool = False) -> str:
    """One sentence on what was seen, in the order of the repeats; empty where they agree or are fewer than three."""
    # Differences too small to act on do not count: repeats within 5 % of each other agree, whatever their pattern
    middle = statistics.median(values) if values else 0.0
    if len(values) < FEWEST or middle <= 0 or max(values) - min(values) < NOTICEABLE * middle:
        return ""
    ordered = sorted(values)
    at = max(range(1, len(ordered)), key=lambda n: ordered[n] - ordered[n - 1])
    below, above = ordered[:at], ordered[at:]
    width = max(part[-1] - part[0] for part in (below, above))
    apart = above[0] - below[-1] >= max(_APART * width, NOTICEABLE * middle)
    if apart and (sentence := _outlier(values, below, above, lower_is_better=lower_is_better)):
        return sentence
    if sentence := _trend(values, lower_is_better=lower_is_better):
        return sentence
    if apart:
        slow, fast = (above, below) if lower_is_better else (below, above)
        low, high = statistics.median(below), statistics.median(above)
        off = (high / low - 1) if low > 0 and lower_is_better else 1 - low / high
        return f"the repeats form two groups: {len(slow)} were about {off:.0%} slower than the other {len(fast)}"
    # Noise without a pattern, where it is large
    deviation = statistics.fmean(abs(value - middle) for value in values) / middle
    if deviation < _SCATTER:
        return ""
    return f"the repeats scatter: from {min(values) / middle - 1:+.0%} to {max(values) / middle - 1:+.0%} of the median"


def _outlier(values: Sequence[float], below: list[float], above: list[float], *, lower_is_better: bool) -> str:
    """Whether one is alone, and the others are more than nothing: pieces that come together have no gap."""
    lone, others = (below, above) if len(below) == 1 else (above, below)
    usual = statistics.median(others)
    if len(lone) > 1 or usual <= 0:
        return ""
    off = abs(lone[0] / usual - 1)
    word = "slower" if (lone[0] < usual) != lower_is_better else "faster"
    index = values.index(lone[0])
    ordinal = _NUMBERS[index] if index < len(_NUMBERS) else f"{index + 1}th"
    return f"the {ordinal} of {len(values)} was {off:.0%} {word} than the others"


def _trend(values: Sequence[float], *, lower_is_better: bool) -> str:
    """Whether it goes one way: nearly all pairs in order, and from the first to the last by more than is noticeable."""
    pairs = list(combinations(values[:: -(-len(values) // _MOST_PAIRED)], 2))
    way = sum((b > a) - (b < a) for a, b in pairs) / len(pairs)
    third = max(1, len(values) // 3)
    start, end = statistics.median(values[:third]), statistics.median(values[-third:])
    if abs(way) < _ONE_WAY or start <= 0 or abs(end / start - 1) < NOTICEABLE:
        return ""
    what = f"the {'time' if lower_is_better else 'speed'} {'rises' if way > 0 else 'falls'}"
    return f"{what} steadily over the repeats, by {abs(end / start - 1):.0%} in total"


@lru_cache(maxsize=1024)
def student_quantile(confidence: float, df: float) -> float:
    """The t that chance stays within, on both sides, with that confidence; at most a million."""
    # By Newton's steps from the normal distribution, which lies below every t: the tail is convex, so none goes too far
    t = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    log_front = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    for _ in range(_MOST_STEPS):
        density = math.exp(log_front - (df + 1) / 2 * math.log1p(t * t / df))
        step = (two_sided_p(t, df) - (1 - confidence)) / (2 * density)
        t += step
        if abs(step) <= _CLOSE * t or t > _FARTHEST:
            break
    return min(t, _FARTHEST)


def two_sided_p(t: float, df: float) -> float:
    """How often chance alone gives a value at least as far from 0 as `t`."""
    if math.isnan(t) or df <= 0:
        return 1.0
    return min(1.0, incomplete_beta(df / 2, 0.5, df / (df + t * t)))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction on the side where that converges fast."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _fraction(a, b, x) / a
    return 1 - math.exp(log_front) * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, evaluated from the front."""
    numerator, denominator = 1.0, _kept_from_zero(1 - (a + b) * x / (a + 1))
    denominator = 1 / denominator
    value = denominator
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = 1 / _kept_from_zero(1 + term * denominator)
            numerator = _kept_from_zero(1 + term / numerator)
            value *= denominator * numerator
        if abs(denominator * numerator - 1) < _CLOSE:
            break
    return value


def _kept_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
