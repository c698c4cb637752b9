"""Whether one benchmark is slower than another, by how much, and whether that is more than noise.

A difference is called one where chance would show it in less than one of fifty comparisons of the same thing, and
where it is large enough to matter. Two benchmarks are called the same where a tenth, either way, can be excluded. All
else can't be told, and the smallest difference that this comparison could have found says what it is worth.

Two kinds of noise. Repeats within a run differ, mostly one way: a neighbour can slow a repeat down and never speed it
up, so the level is the mean of the best third, and its noise is read off the better half. And runs differ as a whole:
where the process' memory landed, the clock of that minute, a neighbour for longer than the run. No number of repeats
shows the second kind. It is learned from earlier runs of the same thing, and until there are some it is what is assumed
below: with both, a difference between two runs is not called one when it is the machine's mood.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import combinations_with_replacement, pairwise
from operator import attrgetter
from typing import NamedTuple

import msgspec

from unslow.facts import bench as metrics
from unslow.facts.bench import DECODE, FIRST, LOWER_IS_BETTER, PREFILL, Bench, Change, Comparison, Difference
from unslow.facts.errors import UserError
from unslow.think.stats.figures import waiting_cpus
from unslow.think.stats.repeats import robust_deviation, student_quantile, two_sided_p

CHANCE = 0.02  # How often the same thing measured twice may be called different, for one figure; a report has several
MATTERS = 0.02  # A smaller difference is never called one, however sure it is: another day shows as much
EXCLUDED = 0.10  # Two are the same where a difference of this size is excluded
CONFIDENCE, FOUND = 0.95, 0.90
REPEAT_EXPERIENCE, RUN_EXPERIENCE = 4.0, 6.0
"""How many degrees of freedom experience counts for: the repeats at hand, and a dozen earlier runs, outweigh it."""
FREEDOM_OF_A_PAIR = 0.6  # Of neighbours in a chain, each of which is in two pairs
BEST_THIRD_VARIANCE = 1.7
"""Of the mean of the best third of n normal values, times n: from 1.35 to 1.71 for 2 to 20 of them, by simulation."""
RESTLESS = 0.04
"""Repeats that scatter by more are not those of a calm machine. What disturbs them outlasts them, so whole runs differ
by as much: on two processors with busy neighbours `lab/check_noise.py` saw 6 % between repeats, 6 % between runs."""
AS_LONG = 1.25
OTHERS, NOTICEABLE_CPUS = "others_cpus", 0.3
_HEADLINE = {DECODE: "decode", PREFILL: "prefill", FIRST: "the first token"}
"""The figures that decide the verdict on the whole, in words; the others are shown."""
_IDENTITY = attrgetter("machine", "runtime", "runtime_version", "model", "protocol", "settings")
_EFFICIENCY = 1.15
"""The variance of the typical difference over that of a mean: about 1.05 for many pairs, more for a few."""
_RUNS_SHARE = 0.5
"""Of the variance between runs, what stays in pairs: two processes keep their places in memory through all of them."""
_OF_THE_DIFFERENCE, _OF_BOTH = 0.5, 0.3
"""Of the time that threads waited, none or all may have been lost: in both runs much the same part of it, as long as
there is little. On a machine where threads wait as long as they run, runs of the same thing differ by a fifth."""
_MOST_LOST = 0.95
_SMALLEST_SHOWN = 0.001
_LARGEST_LOG = 41.0


class UsualVariance(NamedTuple):
    """What is usual for a figure, as shares: the noise of a repeat, and what whole runs differ by beyond it."""

    repeat: float
    run: float


class BenchLevel(NamedTuple):
    """Where the repeats of a run lie, in logarithms and with more meaning better, and how they scatter."""

    log: float
    scatter: float
    repeats: int


class Variance(NamedTuple):
    """A variance in logarithms, and the degrees of freedom that it rests on."""

    value: float
    freedom: float


_USUAL = {
    **dict.fromkeys((DECODE, metrics.CLIENT_DECODE, metrics.DECODE_AT_4K, PREFILL), UsualVariance(0.025, 0.012)),
    FIRST: UsualVariance(0.05, 0.03),
    metrics.LOAD: UsualVariance(0.10, 0.05),
    metrics.GAPS[0]: UsualVariance(0.025, 0.012),
    metrics.GAPS[1]: UsualVariance(0.06, 0.04),
    metrics.GAPS[2]: UsualVariance(0.15, 0.10),
}
"""For a calm machine. On an H200 `lab/check_noise.py` saw 1.4 % and 1.2 % for decoding, 0.8 % and none for prefill; the
rest is judgement."""
_OTHERWISE = UsualVariance(0.05, 0.03)


def compare_benches(before: Bench, after: Bench, earlier: Sequence[Bench] = ()) -> Comparison:
    """Every figure that both have; `earlier` are benchmarks of any kind, of which those of the same thing are used."""
    # Earlier runs of the same thing as the one, and as the other where that differs, each in the order of time
    others = sorted((b for b in earlier if b.id not in (before.id, after.id)), key=lambda bench: bench.taken_at)
    like = [before] if is_comparable(before, after) else [before, after]
    chains = [chain for one in like if (chain := [bench for bench in others if is_comparable(bench, one)])]
    common = [name for name in after.figures if name in before.figures]
    differences = tuple(one for metric in common if (one := _compare_metric(metric, before, after, chains)))
    judged = [one for name in _HEADLINE for one in differences if one.metric == name]
    telling = [one for one in judged if one.verdict in ("slower", "faster")] or judged[:1]
    verdicts = [one.verdict for one in telling]
    learned = "run-to-run noise not measured yet; assuming the usual amount (more runs will tell)"
    if (runs := sum(map(len, chains))) > 1:
        learned = f"run-to-run noise estimated from {runs} earlier runs of the same setup"
    notes, (old, new) = [learned], (bench.conditions.get(OTHERS) for bench in (before, after))
    if old is not None and new is not None and abs(new - old) >= NOTICEABLE_CPUS:
        busier = f"other programs used {new:.1f} CPUs meanwhile, {old:.1f} before"
        notes.append(f"{busier}, which alone can change the speed")
    return Comparison(
        before=before.id,
        after=after.id,
        verdict="slower" if "slower" in verdicts else next(iter(verdicts), "cannot_tell"),
        because="; ".join(f"{_HEADLINE[one.metric]}: {one.because}" for one in telling)
        or "the two benchmarks have no figure in common",
        differences=differences,
        notes=tuple(notes),
    )


def is_comparable(one: Bench, other: Bench) -> bool:
    """Whether two benchmarks measured the same thing: what they differ by is noise."""
    return bool(_IDENTITY(one) == _IDENTITY(other))


def _compare_metric(metric: str, before: Bench, after: Bench, chains: Sequence[Sequence[Bench]]) -> Difference | None:
    old, new = _level(metric, before), _level(metric, after)
    if old is None or new is None:
        return None
    history = [[level for bench in chain if (level := _level(metric, bench))] for chain in chains]
    # The variance of one repeat: what these runs show, of which only the better half tells, and experience
    every = (old, new, *(level for chain in history for level in chain))
    seen = [(level.repeats / 4 if level.repeats > 1 else 0.0, level.scatter**2) for level in every]
    repeat = _weighted_variance([(REPEAT_EXPERIENCE, usual_variance(metric).repeat ** 2), *seen])
    samples = [bench.samples.get(metric, ()) for bench in (before, after)]
    between = run_variance(metric, history, repeat, samples)
    # Of the level of each run: its share of the noise of repeats, and what runs differ by
    within = [Variance(repeat.value * BEST_THIRD_VARIANCE / level.repeats, repeat.freedom) for level in (old, new)]
    others = Variance(disturbance(before, after) ** 2, repeat.freedom)
    variance = pooled_variance([*(pooled_variance([one, between]) for one in within), others])
    found = tested_difference(metric, old.log, new.log, variance)
    why = length_difference(metric, before, after)
    return msgspec.structs.replace(found, verdict="cannot_tell", because=f"undetermined: {why}") if why else found


def _level(metric: str, bench: Bench) -> BenchLevel | None:
    figure = bench.figures.get(metric)
    return level_of(metric, bench.samples.get(metric) or ((figure.median,) if figure else ()))


def compare_pairs(metric: str, pairs: Sequence[tuple[float, float]]) -> Difference:
    """Whether the second of each pair differs from the first by more than noise; UserError where no pair can tell."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    logs = [(sign * math.log(old), sign * math.log(new)) for old, new in pairs if old > 0 and new > 0]
    if not logs:
        raise UserError(f"no pair of {metric} values was measured", "measure both at least once")
    gains = [new - old for old, new in logs]
    level = statistics.median(old for old, _ in logs)
    freedom = len(gains) - 1
    seen = robust_deviation(gains) ** 2 if freedom else 0.0
    experience = 2 * usual_variance(metric).repeat ** 2
    pair = (REPEAT_EXPERIENCE * experience + freedom * seen) / (REPEAT_EXPERIENCE + freedom)
    runs = Variance(2 * _RUNS_SHARE * usual_variance(metric).run ** 2, RUN_EXPERIENCE)
    variance = pooled_variance([Variance(_EFFICIENCY * pair / len(gains), REPEAT_EXPERIENCE + freedom), runs])
    return tested_difference(metric, level, level + hodges_lehmann(gains), variance)


def hodges_lehmann(values: Sequence[float]) -> float:
    """The median of the means of any two (Hodges and Lehmann): as sharp as a mean, hardly moved by an outlier."""
    return statistics.median((a + b) / 2 for a, b in combinations_with_replacement(values, 2))


def tested_difference(metric: str, before_log: float, after_log: float, variance: Variance) -> Difference:
    """The difference of two levels, given in logarithms with more meaning better."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    gain, error = after_log - before_log, math.sqrt(variance.value)
    p = two_sided_p(gain / error, variance.freedom) if error else float(gain == 0)
    reach = student_quantile(CONFIDENCE, variance.freedom) * error
    found = (student_quantile(1 - CHANCE, variance.freedom) + student_quantile(2 * FOUND - 1, variance.freedom)) * error
    verdict: Change = "cannot_tell"
    if p < CHANCE and abs(gain) >= MATTERS:
        verdict = "faster" if gain > 0 else "slower"
    elif abs(gain) + reach <= -math.log1p(-EXCLUDED):
        verdict = "same"
    low, high = sorted(bounded_exp(sign * (gain + side * reach)) for side in (-1, 1))
    ratio, smallest = bounded_exp(sign * gain), max(MATTERS, 1 - bounded_exp(-found))
    seen = f"{ratio - 1:+.1%} (95 % interval {low - 1:+.1%} to {high - 1:+.1%})"
    because = f"undetermined: {seen}; a difference of {smallest:.0%} would be detected in nine of ten comparisons"
    if verdict in ("faster", "slower"):
        shown = f"{p:.3f}" if p >= _SMALLEST_SHOWN else f"below {_SMALLEST_SHOWN}"
        because = f"{verdict}: {seen}, more than run-to-run noise (p = {shown})"
    elif verdict == "same":
        because = f"no difference beyond noise: {seen}; a difference of {smallest:.0%} would have been detected"
    return Difference(
        metric=metric,
        before=bounded_exp(sign * before_log),
        after=bounded_exp(sign * after_log),
        ratio=ratio,
        low=low,
        high=high,
        p_value=p,
        verdict=verdict,
        smallest=smallest,
        because=because,
    )


def bounded_exp(value: float) -> float:
    """Bounded so that a hostile file can't overflow it; the largest amount that facts hold."""
    return math.exp(min(max(value, -_LARGEST_LOG), _LARGEST_LOG))


def pooled_variance(parts: Sequence[Variance]) -> Variance:
    """The variance of a difference of independent parts."""
    value = sum(part.value for part in parts)
    squares = sum(part.value**2 / part.freedom for part in parts)
    return Variance(value, value**2 / squares if squares else parts[0].freedom)


def level_of(metric: str, samples: Sequence[float]) -> BenchLevel | None:
    """The level of the best third; None where no sample is a positive number."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    logs = sorted((sign * math.log(value) for value in samples if value > 0), reverse=True)
    if not logs:
        return None
    # Where the value at a place, the best being 0, of so many normal ones lies, in standard deviations (Blom)
    shares = ((place + 0.625) / (len(logs) + 0.25) for place in range(len(logs)))
    usual_scores = [-statistics.NormalDist().inv_cdf(share) for share in shares]
    best, usual = (statistics.fmean(ordered[: math.ceil(len(logs) / 3)]) for ordered in (logs, usual_scores))
    # How far the level lies above the last of the better half: a few disturbed repeats are below both
    last = max(1, (len(logs) - 1) // 2)
    reach = best - logs[last] if len(logs) > 1 else 0.0
    return BenchLevel(best, reach / (usual - usual_scores[last]) if reach else 0.0, len(logs))


def run_variance(
    metric: str, chains: Sequence[Sequence[BenchLevel]], repeat: Variance, repeats: Sequence[Sequence[float]]
) -> Variance:
    """What runs differ by beyond their repeats: from neighbours in each chain of earlier runs, and experience."""
    # Neighbours, because a run is compared with the one before it: a machine that changed long ago is no noise.
    # Absolute differences, because a single jump in the history must not hide all later ones.
    known = [(RUN_EXPERIENCE, usual_variance(metric).run ** 2)]
    if pairs := [(a, b) for chain in chains for a, b in pairwise(chain)]:
        apart = statistics.fmean(abs(b.log - a.log) for a, b in pairs) * math.sqrt(math.pi) / 2
        within = statistics.fmean(BEST_THIRD_VARIANCE / level.repeats for pair in pairs for level in pair)
        known.append((FREEDOM_OF_A_PAIR * len(pairs), max(0.0, apart**2 - within * repeat.value)))
    between = _weighted_variance(known)
    # As much as repeats scatter where those are not of a calm machine
    logs = [[math.log(value) for value in run if value > 0] for run in repeats]
    seen = [(len(run) - 1.0, robust_deviation(run) ** 2) for run in logs if len(run) > 1]
    scatter = _weighted_variance(seen).value if seen else 0.0
    return between._replace(value=max(between.value, scatter)) if scatter > RESTLESS**2 else between


def _weighted_variance(parts: Sequence[tuple[float, float]]) -> Variance:
    freedom = sum(weight for weight, _ in parts)
    return Variance(sum(weight * value for weight, value in parts) / freedom, freedom)


def usual_variance(metric: str) -> UsualVariance:
    """What is usual for a figure."""
    return _USUAL.get(metric, _OTHERWISE)


def length_difference(metric: str, before: Bench, after: Bench) -> str:
    """Why two benchmarks do not measure a figure in the same way; nothing where they do, or where it can't be told."""
    if (before.protocol == "imported") != (after.protocol == "imported"):
        return "one was measured by another program"
    old, new = _tokens(metric, before), _tokens(metric, after)
    if not old or not new or max(old, new) <= AS_LONG * min(old, new):
        return ""
    what = "prompts" if metric == PREFILL else "answers"
    return f"{what} of {old:.0f} tokens before, of {new:.0f} now"


def _tokens(metric: str, bench: Bench) -> float:
    """Of the prompts that a figure is made from, or of the answers; 0 where no request is known."""
    counted = [done for done in bench.passes if done.round]
    if metric == PREFILL:
        return max((done.prompt_tokens for done in counted), default=0)
    short = [done.asked_tokens for done in counted if done.case == "short"]
    return statistics.median(short) if short else 0


def disturbance(before: Bench, after: Bench) -> float:
    """What other programs may add to the difference of two runs, as a standard deviation in logarithms."""
    old, new = lost_to_others(before), lost_to_others(after)
    return _OF_THE_DIFFERENCE * abs(new - old) + _OF_BOTH * old * new


def lost_to_others(bench: Bench) -> float:
    """By how much waiting for processors may have slowed its better half, in logarithms; 0 where not measured."""
    # Threads of an engine wait for each other, so a moment in which one waits for a processor may be lost for all
    shares = sorted(share for done in bench.passes if done.round > 0 and (share := waiting_cpus(done)) is not None)
    better = shares[: math.ceil(len(shares) / 2)]
    return -math.log1p(-min(statistics.fmean(better), _MOST_LOST)) if better else 0.0
