"""The test of a difference: its interval, how likely chance would show it, and the verdict in words."""

import math
from collections.abc import Sequence

import msgspec

from unslow.facts.bench import LOWER_IS_BETTER, Change, Difference
from unslow.think.bench.noise import Variance
from unslow.think.bench.student import quantile, two_sided_p

CHANCE = 0.02
"""How often the same thing measured twice may be called different, for one figure; a report has several."""
MATTERS = 0.02
"""A smaller difference is never called one, however sure it is: another day shows as much."""
EXCLUDED = 0.10
"""Two are the same where a difference of this size is excluded."""
CONFIDENCE, FOUND = 0.95, 0.90
_SMALLEST_SHOWN = 0.001
_LARGEST_LOG = 41.0


def pooled(parts: Sequence[Variance]) -> Variance:
    """The variance of a difference of independent parts."""
    value = sum(part.value for part in parts)
    squares = sum(part.value**2 / part.freedom for part in parts)
    return Variance(value, value**2 / squares if squares else parts[0].freedom)


def difference_of(metric: str, before_log: float, after_log: float, variance: Variance) -> Difference:
    """The difference of two levels, given in logarithms with more meaning better."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    gain, error = after_log - before_log, math.sqrt(variance.value)
    p = two_sided_p(gain / error, variance.freedom) if error else float(gain == 0)
    reach = quantile(CONFIDENCE, variance.freedom) * error
    found = (quantile(1 - CHANCE, variance.freedom) + quantile(2 * FOUND - 1, variance.freedom)) * error
    verdict = _verdict(gain, reach, p)
    low, high = sorted(_exp(sign * (gain + side * reach)) for side in (-1, 1))
    said = Difference(
        metric=metric,
        before=_exp(sign * before_log),
        after=_exp(sign * after_log),
        ratio=_exp(sign * gain),
        low=low,
        high=high,
        p_value=p,
        verdict=verdict,
        smallest=max(MATTERS, 1 - _exp(-found)),
        because="",
    )
    return msgspec.structs.replace(said, because=_because(said))


def _verdict(gain: float, reach: float, p: float) -> Change:
    if p < CHANCE and abs(gain) >= MATTERS:
        return "faster" if gain > 0 else "slower"
    return "same" if abs(gain) + reach <= -math.log1p(-EXCLUDED) else "cannot_tell"


def _because(said: Difference) -> str:
    """The verdict in words, with the numbers that make it."""
    sure = f"95 % sure between {said.low - 1:+.1%} and {said.high - 1:+.1%}"
    seen = f"{said.ratio - 1:+.1%} ({sure})"
    if said.verdict in ("faster", "slower"):
        return f"{said.verdict}: {seen}, more than runs of the same thing differ by (p = {_p(said.p_value)})"
    if said.verdict == "same":
        return f"no difference that is more than noise: {seen}; one of {said.smallest:.0%} would have been found"
    return f"can't be told: {seen}; {said.smallest:.0%} would be found in nine of ten comparisons"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= _SMALLEST_SHOWN else f"below {_SMALLEST_SHOWN}"


def _exp(value: float) -> float:
    """Bounded so that a hostile file can't overflow it; the largest amount that facts hold."""
    return math.exp(min(max(value, -_LARGEST_LOG), _LARGEST_LOG))
