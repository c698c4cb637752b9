"""Whether repeats of one measurement are of one kind, and what was seen where not: an outlier, a trend, two groups.

Differences that nobody would act on are none: repeats within 5 % of each other agree, whatever pattern they make.
"""

import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

FEWEST = 3
NOTICEABLE = 0.05
_APART = 4.0
"""How many times farther off than the others are from each other an outlier is, or one group from another."""
_ONE_WAY = 0.8
"""The share of pairs in order, less those out of order, that makes a trend."""
_SCATTER = 0.05
_MOST_PAIRED = 200
"""Values whose pairs are looked at: all pairs of the thousands that a long run has would fill the memory."""
_NUMBERS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


class Split(NamedTuple):
    """Ordered values in two parts, and how far they are apart."""

    below: list[float]
    above: list[float]

    @property
    def gap(self) -> float:
        """From the one part to the other."""
        return self.above[0] - self.below[-1]

    @property
    def width(self) -> float:
        """Of the wider part."""
        return max(part[-1] - part[0] for part in (self.below, self.above))


def disagreement(values: Sequence[float], *, lower_is_better: bool = False) -> str:
    """One sentence on what was seen, in the order of the repeats; empty where they agree or are fewer than three."""
    middle = statistics.median(values) if values else 0.0
    if len(values) < FEWEST or middle <= 0 or max(values) - min(values) < NOTICEABLE * middle:
        return ""
    split = _widest(values)
    apart = split.gap >= max(_APART * split.width, NOTICEABLE * middle)
    if apart and (sentence := _outlier(values, split, lower_is_better=lower_is_better)):
        return sentence
    if sentence := _trend(values, lower_is_better=lower_is_better):
        return sentence
    if apart:
        return _groups(split, lower_is_better=lower_is_better)
    return _scatter(values, middle)


def _widest(values: Sequence[float]) -> Split:
    """Where the ordered values are farthest apart."""
    ordered = sorted(values)
    at = max(range(1, len(ordered)), key=lambda n: ordered[n] - ordered[n - 1])
    return Split(ordered[:at], ordered[at:])


def _outlier(values: Sequence[float], split: Split, *, lower_is_better: bool) -> str:
    """Whether one is alone, and the others are more than nothing: pieces that come together have no gap."""
    lone, others = (split.below, split.above) if len(split.below) == 1 else (split.above, split.below)
    usual = statistics.median(others)
    if len(lone) > 1 or usual <= 0:
        return ""
    off = abs(lone[0] / usual - 1)
    word = "slower" if (lone[0] < usual) != lower_is_better else "faster"
    return f"the {_ordinal(values.index(lone[0]))} of {len(values)} was {off:.0%} {word} than the others"


def _ordinal(index: int) -> str:
    return _NUMBERS[index] if index < len(_NUMBERS) else f"{index + 1}th"


def _trend(values: Sequence[float], *, lower_is_better: bool) -> str:
    """Whether it goes one way: nearly all pairs in order, and from the first to the last by more than is noticeable."""
    pairs = list(combinations(values[:: -(-len(values) // _MOST_PAIRED)], 2))
    way = sum((b > a) - (b < a) for a, b in pairs) / len(pairs)
    third = max(1, len(values) // 3)
    start, end = statistics.median(values[:third]), statistics.median(values[-third:])
    if abs(way) < _ONE_WAY or start <= 0 or abs(end / start - 1) < NOTICEABLE:
        return ""
    verb = "rises" if way > 0 else "falls"
    what = "the time" if lower_is_better else "the speed"
    return f"{what} {verb} from repeat to repeat, by {abs(end / start - 1):.0%} from the start to the end"


def _groups(split: Split, *, lower_is_better: bool) -> str:
    slow, fast = (split.above, split.below) if lower_is_better else (split.below, split.above)
    low, high = statistics.median(split.below), statistics.median(split.above)
    off = (high / low - 1) if low > 0 and lower_is_better else 1 - low / high
    return f"the repeats are in two groups: {len(slow)} were about {off:.0%} slower than the other {len(fast)}"


def _scatter(values: Sequence[float], middle: float) -> str:
    """Noise without a pattern, where it is large."""
    deviation = statistics.fmean(abs(value - middle) for value in values) / middle
    if deviation < _SCATTER:
        return ""
    return f"the repeats scatter: from {min(values) / middle - 1:+.0%} to {max(values) / middle - 1:+.0%} of the median"
