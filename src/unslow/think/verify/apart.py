"""Two sides that were measured one after the other: nothing cancels, so the interval holds what drifts between them.

Three things beside the noise of the rounds: what whole runs of the same thing differ by (`think.bench.noise`); how much
faster or slower the host's own memory was meanwhile, of which a part may have changed the speed; and how much of the
processors other programs took, which they may take or leave at any other time.
"""

import math
import statistics
from collections.abc import Sequence

from unslow.facts.verified import Side
from unslow.think.bench.noise import RUN_EXPERIENCE, Variance, usual
from unslow.think.bench.spread import CONFIDENCE, robust_deviation
from unslow.think.bench.student import quantile
from unslow.think.bench.testing import pooled
from unslow.think.verify.gain import Gain
from unslow.think.verify.rounds import levels

_OF_THE_HOST = 0.5
"""Of a change of the host's speed, as a standard deviation: a model may feel none of it, or all."""
_OF_THE_CROWD = 0.5
"""Of what others can have cost at most, as a standard deviation: all of it the one time, and nothing the other."""
_MOST_CROWDED = 0.95
_FEWEST = 2


def apart_gain(metric: str, before: Side, after: Side) -> Gain | None:
    """The gain and its interval; None where either has fewer than two rounds."""
    old, new = (list(levels(side.samples, metric).values()) for side in (before, after))
    if min(len(old), len(new)) < _FEWEST:
        return None
    middle = statistics.median(new) - statistics.median(old)
    parts = [_of_rounds(old), _of_rounds(new), Variance(2 * usual(metric).run ** 2, RUN_EXPERIENCE)]
    drift = host_drift(before, after)
    parts += [Variance((_OF_THE_HOST * drift) ** 2, RUN_EXPERIENCE)] if drift else []
    crowd = max(crowding(before), crowding(after))
    parts += [Variance((_OF_THE_CROWD * math.log1p(-crowd)) ** 2, RUN_EXPERIENCE)] if crowd else []
    whole = pooled(parts)
    reach = quantile(CONFIDENCE, whole.freedom) * math.sqrt(whole.value)
    return Gain(middle, middle - reach, middle + reach, min(len(old), len(new)))


def host_drift(before: Side, after: Side) -> float | None:
    """By how much the host itself was faster the second time, in logarithms; None where nobody measured it."""
    if not before.host_bytes_per_s or not after.host_bytes_per_s:
        return None
    old, new = (statistics.median(side.host_bytes_per_s) for side in (before, after))
    return math.log(new / old) if old > 0 and new > 0 else None


def crowding(side: Side) -> float:
    """The share of the time that other programs may have taken from it: no more than somebody waited, or they computed.

    Either alone says too much: own threads wait for each other too, and others may have processors to themselves.
    """
    known = [side.conditions.get(name) for name in ("cpu_pressure", "others_cpus", "own_cpus")]
    waited, others, own = (value or 0.0 for value in known)
    return min(waited, others / (others + own), _MOST_CROWDED) if others and None not in known else 0.0


def _of_rounds(values: Sequence[float]) -> Variance:
    """Of the median of a few rounds, which is half as sharp again as a mean."""
    return Variance(math.pi / 2 * robust_deviation(values) ** 2 / len(values), len(values) - 1)
