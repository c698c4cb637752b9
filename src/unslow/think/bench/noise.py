"""How much a benchmark's level varies though nothing changed, from its repeats, from earlier runs, and from experience.

Two kinds of noise. Repeats within a run differ, mostly one way: a neighbour can slow a repeat down and never speed it
up, so the level is the mean of the best third, and its noise is read off the better half. And runs differ as a whole:
where the process' memory landed, the clock of that minute, a neighbour for longer than the run. No number of repeats
shows the second kind. It is learned from earlier runs of the same thing, and until there are some it is what
is assumed below: with both, a difference between two runs is not called one when it is the machine's mood.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from unslow.facts.bench import CLIENT_DECODE, DECODE, DECODE_AT_4K, FIRST, GAPS, LOAD, LOWER_IS_BETTER, PREFILL
from unslow.think.bench.spread import robust_deviation

REPEAT_EXPERIENCE, RUN_EXPERIENCE = 4.0, 6.0
"""How many degrees of freedom experience counts for: the repeats at hand, and a dozen earlier runs, outweigh it."""
FREEDOM_OF_A_PAIR = 0.6
"""Of neighbours in a chain, each of which is in two pairs."""
BEST_THIRD_VARIANCE = 1.7
"""Of the mean of the best third of n normal values, times n: from 1.35 to 1.71 for 2 to 20 of them, by simulation."""


RESTLESS = 0.04
"""Repeats that scatter by more are not those of a calm machine. What disturbs them outlasts them, so whole runs differ
by as much: on two processors with busy neighbours `lab/check_noise.py` saw 6 % between repeats, 6 % between runs."""


class Usual(NamedTuple):
    """What is usual for a figure, as shares: the noise of a repeat, and what whole runs differ by beyond it."""

    repeat: float
    run: float


_USUAL = {
    DECODE: Usual(0.025, 0.012),
    CLIENT_DECODE: Usual(0.025, 0.012),
    DECODE_AT_4K: Usual(0.025, 0.012),
    PREFILL: Usual(0.025, 0.012),
    FIRST: Usual(0.05, 0.03),
    LOAD: Usual(0.10, 0.05),
    GAPS[0]: Usual(0.025, 0.012),
    GAPS[1]: Usual(0.06, 0.04),
    GAPS[2]: Usual(0.15, 0.10),
}
"""For a calm machine. On an H200 `lab/check_noise.py` saw 1.4 % and 1.2 % for decoding, 0.8 % and none for prefill; the
rest is judgement."""
_OTHERWISE = Usual(0.05, 0.03)


class Level(NamedTuple):
    """Where the repeats of a run lie, in logarithms and with more meaning better, and how they scatter."""

    log: float
    scatter: float
    repeats: int

    @property
    def freedom(self) -> float:
        """About the degrees of freedom of the scatter: only the better half tells it."""
        return self.repeats / 4 if self.repeats > 1 else 0.0


class Variance(NamedTuple):
    """A variance in logarithms, and the degrees of freedom that it rests on."""

    value: float
    freedom: float


def usual(metric: str) -> Usual:
    """What is usual for a figure."""
    return _USUAL.get(metric, _OTHERWISE)


def level_of(metric: str, samples: Sequence[float]) -> Level | None:
    """The level of the best third; None where no sample is a positive number."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    logs = sorted((sign * math.log(value) for value in samples if value > 0), reverse=True)
    if not logs:
        return None
    usual_scores = [_score(place, len(logs)) for place in range(len(logs))]
    reach = _above_middle(logs)
    return Level(_best_third(logs), reach / _above_middle(usual_scores) if reach else 0.0, len(logs))


def _best_third(ordered: Sequence[float]) -> float:
    return statistics.fmean(ordered[: math.ceil(len(ordered) / 3)])


def _above_middle(ordered: Sequence[float]) -> float:
    """How far the level lies above the last of the better half: a few disturbed repeats are below both."""
    if len(ordered) == 1:
        return 0.0
    return _best_third(ordered) - ordered[max(1, (len(ordered) - 1) // 2)]


def _score(place: int, count: int) -> float:
    """Where the value at a place, the best being 0, of so many normal ones lies, in standard deviations (Blom)."""
    return -statistics.NormalDist().inv_cdf((place + 0.625) / (count + 0.25))


def repeat_variance(metric: str, levels: Sequence[Level]) -> Variance:
    """Of one repeat: what these runs show, and experience."""
    seen = [(level.freedom, level.scatter**2) for level in levels]
    return _weighted([(REPEAT_EXPERIENCE, usual(metric).repeat ** 2), *seen])


def level_variance(level: Level, repeat: Variance, between: Variance) -> Variance:
    """Of the level of one run: its share of the noise of repeats, and what runs differ by."""
    within = repeat.value * BEST_THIRD_VARIANCE / level.repeats
    return Variance(within + between.value, _satterthwaite((within, repeat.freedom), (between.value, between.freedom)))


def run_variance(metric: str, chains: Sequence[Sequence[Level]], repeat: Variance) -> Variance:
    """What runs differ by beyond their repeats: from neighbours in each chain of earlier runs, and experience.

    Neighbours, because a run is compared with the one before it: a machine that changed long ago is no noise. Absolute
    differences, because a single jump in the history must not hide all later ones.
    """
    experience = (RUN_EXPERIENCE, usual(metric).run ** 2)
    pairs = [(a, b) for chain in chains for a, b in pairwise(chain)]
    if not pairs:
        return _weighted([experience])
    apart = statistics.fmean(abs(b.log - a.log) for a, b in pairs) * math.sqrt(math.pi) / 2
    repeats = statistics.fmean(BEST_THIRD_VARIANCE / level.repeats for pair in pairs for level in pair) * repeat.value
    return _weighted([experience, (FREEDOM_OF_A_PAIR * len(pairs), max(0.0, apart**2 - repeats))])


def restless(between: Variance, repeats: Sequence[Sequence[float]]) -> Variance:
    """What runs differ by, as much as their repeats where those are not of a calm machine."""
    logs = [[math.log(value) for value in run if value > 0] for run in repeats]
    seen = [(len(run) - 1.0, robust_deviation(run) ** 2) for run in logs if len(run) > 1]
    scatter = _weighted(seen).value if seen else 0.0
    return between._replace(value=max(between.value, scatter)) if scatter > RESTLESS**2 else between


def _weighted(parts: Sequence[tuple[float, float]]) -> Variance:
    freedom = sum(weight for weight, _ in parts)
    return Variance(sum(weight * value for weight, value in parts) / freedom, freedom)


def _satterthwaite(*parts: tuple[float, float]) -> float:
    """The degrees of freedom of a sum of variances."""
    squares = sum(value**2 / freedom for value, freedom in parts)
    return sum(value for value, _ in parts) ** 2 / squares if squares else parts[0][1]
