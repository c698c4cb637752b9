"""How much faster one of two sides is: from pairs of rounds or from sides apart, with the interval and the verdict."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, combinations_with_replacement
from typing import NamedTuple

from unslow.facts.bench import DECODE, PREFILL, Change
from unslow.facts.verification import REQUEST, Sample, Side
from unslow.think.stats import comparison
from unslow.think.stats.comparison import RUN_EXPERIENCE, Variance
from unslow.think.stats.repeats import CONFIDENCE, robust_deviation, spread_of, student_quantile
from unslow.think.stats.verification_report import FigureShown, IntervalShown, Way

METRICS = (REQUEST, DECODE, PREFILL)  # The whole request first: it is what one waits for, and decides
SLOWER_IS_MORE = frozenset({REQUEST})
FEWEST_ROUNDS = 3  # Fewer tell nothing about noise
FIRST_LOOK, LOOK_EVERY = 6, 1.5
"""Looks after 6, 9, 14, 21 ... rounds: each look is another chance to stop at a lucky moment."""
NARROW, OF_THE_GAIN = 0.015, 0.15
"""An interval is narrow from here on, as a share on either side; of a large gain, a part of it will do."""
SAME = 0.03  # Two are the same where a difference of this share, either way, is ruled out: less is not noticeable
_SAME_LOG = math.log1p(SAME)
_TWICE = math.log(2)
MOST_EXACT = 60  # Pairs whose ranks are counted one by one; more of them are as good as normal
_LARGEST_LOG = 41.0
_OF_THE_HOST = 0.5  # Of a change of the host's speed, as a standard deviation: a model may feel none of it, or all
_OF_THE_CROWD = 0.5
"""Of what others can have cost at most, as a standard deviation: all of it the one time, and nothing the other."""
_MOST_CROWDED = 0.95
_FEWEST = 2


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
    # Both of a pair meet the same minute, so only their ratio counts. The middle is that of Hodges and Lehmann (the
    # median of the means of any two), and the interval is what Wilcoxon's signed ranks do not exclude: neither asks for
    # normal noise, and of a dozen rounds one in which other work ran hardly moves them. Five rounds or fewer do not
    # reach 95 % that way: there it is Student's t, which is wide, as it should be.
    if 2.0 ** (1 - len(gains)) <= 1 - confidence:  # all on one side is rarer than that by chance
        walsh = sorted((a + b) / 2 for a, b in combinations_with_replacement(gains, 2))
        skipped = _left_out(len(gains), confidence)
        return Gain(comparison.hodges_lehmann(gains), walsh[skipped], walsh[-1 - skipped], len(gains))
    middle = statistics.median(gains)
    if len(gains) == 1:
        return Gain(middle, -_LARGEST_LOG, _LARGEST_LOG, 1)
    mean = statistics.fmean(gains)
    half = student_quantile(confidence, len(gains) - 1) * statistics.stdev(gains) / math.sqrt(len(gains))
    return Gain(middle, min(mean - half, middle), max(mean + half, middle), len(gains))


@lru_cache(maxsize=1024)
def _left_out(count: int, confidence: float) -> int:
    """How many of the means of two lie outside on each side: the largest rank sum that is rarer than that."""
    tail = (1 - confidence) / 2
    if count > MOST_EXACT:
        spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        return max(0, int(count * (count + 1) / 4 + statistics.NormalDist().inv_cdf(tail) * spread) - 1)
    ways = [1] + [0] * (count * (count + 1) // 2)  # in how many of the 2^n ways of signs the ranks sum to 0, 1, 2, ...
    for rank in range(1, count + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    return max(0, sum(1 for below in accumulate(ways) if below <= tail * 2**count) - 1)


def apart_gain(metric: str, before: Side, after: Side) -> Gain | None:
    """The gain and its interval; None where either has fewer than two rounds."""
    # Three things beside the noise of the rounds: what whole runs of the same thing differ by; how much faster or
    # slower the host's own memory was meanwhile, of which a part may have changed the speed; and how much of the
    # processors other programs took, which they may take or leave at any other time
    old, new = (list(round_levels(side.samples, metric).values()) for side in (before, after))
    if min(len(old), len(new)) < _FEWEST:
        return None
    middle = statistics.median(new) - statistics.median(old)
    parts = [
        _variance_of_rounds(old),
        _variance_of_rounds(new),
        Variance(2 * comparison.usual_variance(metric).run ** 2, RUN_EXPERIENCE),
    ]
    drift = host_drift(before, after)
    parts += [Variance((_OF_THE_HOST * drift) ** 2, RUN_EXPERIENCE)] if drift else []
    crowd = max(crowding(before), crowding(after))
    parts += [Variance((_OF_THE_CROWD * math.log1p(-crowd)) ** 2, RUN_EXPERIENCE)] if crowd else []
    whole = comparison.pooled_variance(parts)
    reach = student_quantile(CONFIDENCE, whole.freedom) * math.sqrt(whole.value)
    return Gain(middle, middle - reach, middle + reach, min(len(old), len(new)))


def host_drift(before: Side, after: Side) -> float | None:
    """By how much the host itself was faster the second time, in logarithms; None where not measured."""
    if not before.host_bytes_per_s or not after.host_bytes_per_s:
        return None
    old, new = (statistics.median(side.host_bytes_per_s) for side in (before, after))
    return math.log(new / old) if old > 0 and new > 0 else None


def crowding(side: Side) -> float:
    """The share of the time that other programs may have taken: at most what was waited, or what they computed."""
    # Either alone says too much: own threads wait for each other too, and others may have processors to themselves
    known = [side.conditions.get(name) for name in ("cpu_pressure", "others_cpus", "own_cpus")]
    waited, others, own = (value or 0.0 for value in known)
    return min(waited, others / (others + own), _MOST_CROWDED) if others and None not in known else 0.0


def _variance_of_rounds(values: Sequence[float]) -> Variance:
    """Of the median of a few rounds, which is half as sharp again as a mean."""
    return Variance(math.pi / 2 * robust_deviation(values) ** 2 / len(values), len(values) - 1)


def verdict_of(gain: Gain) -> Change:
    """The same comes first: a significant but unnoticeable difference is none."""
    if gain.low >= -_SAME_LOG and gain.high <= _SAME_LOG:
        return "same"
    if gain.low > 0:
        return "faster"
    return "slower" if gain.high < 0 else "cannot_tell"


def because_of(gain: Gain, verdict: Change) -> str:
    """The verdict in words, with the numbers that make it."""
    # As percents where the gain is small, else as multiples
    ratios = [math.exp(value) for value in (gain.middle, gain.low, gain.high)]
    middle, low, high = (f"×{r:.2f}" if abs(gain.middle) > _TWICE else f"{r - 1:+.1%}" for r in ratios)
    seen = f"{middle} (95 % interval {low} to {high})"
    match verdict:
        case "same":
            return f"no noticeable difference: {seen}"
        case "cannot_tell" if gain.pairs <= 1:
            return f"{middle} in the only round: one round cannot show the noise"
        case "cannot_tell":
            return f"within noise: {seen}"
        case _:
            return f"{verdict}: {seen}"


def round_levels(samples: Sequence[Sample], metric: str) -> dict[int, float]:
    """The logarithm of the speed in each round: of several requests in one life of a server, their median."""
    found: dict[int, list[float]] = {}
    for sample in samples:
        value = getattr(sample, metric)
        if value is not None and value > 0:
            found.setdefault(sample.round, []).append(value)
    sign = -1 if metric in SLOWER_IS_MORE else 1
    return {number: sign * math.log(statistics.median(values)) for number, values in found.items()}


def paired_gain(before: Mapping[int, float], after: Mapping[int, float], confidence: float = CONFIDENCE) -> Gain | None:
    """What the second gained over the first, in the rounds that both have; None where there is none."""
    gains = [after[number] - before[number] for number in sorted(before) if number in after]
    return gain_of(gains, confidence) if gains else None


def compared_figures(before: Side, after: Side, way: Way) -> Iterator[FigureShown]:
    """Every figure that both have, the whole request first."""
    for metric in METRICS:
        old, new = (round_levels(side.samples, metric) for side in (before, after))
        gain = apart_gain(metric, before, after) if way == "apart" else paired_gain(old, new)
        if gain is None:
            continue
        verdict = verdict_of(gain)
        low, middle, high = (comparison.bounded_exp(log) for log in (gain.low, gain.middle, gain.high))
        sign = -1 if metric in SLOWER_IS_MORE else 1
        spreads = (spread_of([math.exp(sign * level) for level in levels.values()]) for levels in (old, new))
        first, second = (IntervalShown(low=each.low, mid=each.median, high=each.high) for each in spreads)
        yield FigureShown(
            metric=metric,
            before=first,
            after=second,
            speedup=IntervalShown(low=low, mid=middle, high=high),
            rounds=gain.pairs,
            verdict=verdict,
            because=because_of(gain, verdict),
        )


def is_enough(before: Sequence[Sample], after: Sequence[Sample]) -> bool:
    """Whether more rounds would tell little more; asked after every round, and answered only at its looks."""
    gains = {metric: paired_gain(round_levels(before, metric), round_levels(after, metric)) for metric in METRICS}
    request = gains[REQUEST]
    return request is not None and is_look(request.pairs) and all(is_narrow(gain) for gain in gains.values() if gain)


def is_steady(samples: Sequence[Sample]) -> bool:
    """The same for one side alone, which is held against another one later."""
    values = list(round_levels(samples, REQUEST).values())
    return is_look(len(values)) and gain_of(values).reach <= NARROW


def is_look(rounds: int) -> bool:
    """Whether it is time to look at what the rounds tell."""
    look = float(FIRST_LOOK)
    while look < rounds:
        look = math.ceil(look * LOOK_EVERY)
    return look == rounds


def is_narrow(gain: Gain) -> bool:
    """Whether the interval says as much as is needed."""
    return gain.reach <= max(NARROW, OF_THE_GAIN * abs(gain.middle))
