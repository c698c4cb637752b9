"""The figures of both sides with the verdict on each."""

import math
import statistics
from collections.abc import Sequence

from unslow.facts.verified import Side
from unslow.think.bench.spread import spread_of
from unslow.think.verify.apart import apart_gain
from unslow.think.verify.gain import Gain, gain_of
from unslow.think.verify.report import FigureShown, IntervalShown, Way
from unslow.think.verify.rounds import METRICS, SLOWER_IS_MORE, levels, paired
from unslow.think.verify.verdict import because_of, verdict_of

_MOST_LOG = 41.0


def figures_of(before: Side, after: Side, way: Way) -> tuple[FigureShown, ...]:
    """Every figure that both have, the whole request first."""
    found = (_figure(metric, before, after, way) for metric in METRICS)
    return tuple(figure for figure in found if figure)


def _figure(metric: str, before: Side, after: Side, way: Way) -> FigureShown | None:
    gain = _gain(metric, before, after, way)
    if gain is None:
        return None
    verdict = verdict_of(gain)
    return FigureShown(
        metric=metric,
        before=_interval(metric, before),
        after=_interval(metric, after),
        speedup=IntervalShown(low=_exp(gain.low), mid=_exp(gain.middle), high=_exp(gain.high)),
        rounds=gain.pairs,
        verdict=verdict,
        because=because_of(gain, verdict),
    )


def _gain(metric: str, before: Side, after: Side, way: Way) -> Gain | None:
    if way == "apart":
        return apart_gain(metric, before, after)
    gains = paired(levels(before.samples, metric), levels(after.samples, metric))
    return gain_of(gains) if gains else None


def _interval(metric: str, side: Side) -> IntervalShown:
    sign = -1 if metric in SLOWER_IS_MORE else 1
    values: Sequence[float] = [math.exp(sign * level) for level in levels(side.samples, metric).values()]
    spread = spread_of(values)
    return IntervalShown(low=spread.low, mid=statistics.median(values), high=spread.high)


def _exp(log: float) -> float:
    return math.exp(max(-_MOST_LOG, min(_MOST_LOG, log)))
