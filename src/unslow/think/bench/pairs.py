"""Two things measured in turns: each pair meets the same minute, so what the machine does from run to run cancels."""

import math
import statistics
from collections.abc import Sequence
from itertools import combinations_with_replacement

from unslow.facts.bench import LOWER_IS_BETTER, Difference
from unslow.facts.errors import UserError
from unslow.think.bench.noise import REPEAT_EXPERIENCE, RUN_EXPERIENCE, Variance, usual
from unslow.think.bench.spread import robust_deviation
from unslow.think.bench.testing import difference_of, pooled

_EFFICIENCY = 1.15
"""The variance of the typical difference over that of a mean: about 1.05 for many pairs, more for a few."""
_RUNS_SHARE = 0.5
"""Of the variance between runs, what stays in pairs: two processes keep their places in memory through all of them."""


def compared_pairs(metric: str, pairs: Sequence[tuple[float, float]]) -> Difference:
    """Whether the second of each pair differs from the first by more than noise; UserError where no pair can tell."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    logs = [(sign * math.log(old), sign * math.log(new)) for old, new in pairs if old > 0 and new > 0]
    if not logs:
        raise UserError(f"no pair of {metric} was measured", "measure both at least once")
    gains = [new - old for old, new in logs]
    level = statistics.median(old for old, _ in logs)
    return difference_of(metric, level, level + typical(gains), _variance(metric, gains))


def typical(values: Sequence[float]) -> float:
    """The median of the means of any two (Hodges and Lehmann): as sharp as a mean, hardly moved by an outlier."""
    return statistics.median((a + b) / 2 for a, b in combinations_with_replacement(values, 2))


def _variance(metric: str, gains: Sequence[float]) -> Variance:
    freedom = len(gains) - 1
    seen = robust_deviation(gains) ** 2 if freedom else 0.0
    experience = 2 * usual(metric).repeat ** 2
    pair = (REPEAT_EXPERIENCE * experience + freedom * seen) / (REPEAT_EXPERIENCE + freedom)
    runs = Variance(2 * _RUNS_SHARE * usual(metric).run ** 2, RUN_EXPERIENCE)
    return pooled([Variance(_EFFICIENCY * pair / len(gains), REPEAT_EXPERIENCE + freedom), runs])
