"""Which value of a setting is fastest, from runs in rounds: threads, batches, and which values to try next.

A slow minute touches all values of its round, so what a round shares is taken out before values are compared. What is
left over is the noise of a single run; a value that lies behind the fastest by no more than that could explain is as
good as the fastest. Values that were clearly slow need not be in every round.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from unslow.facts.machine import Cpu
from unslow.facts.values import MB
from unslow.think.stats.repeats import student_quantile

CONFIDENCE = 0.95
FELT = 0.02  # A smaller difference in speed does not matter, however significant
LEAST_NOISE = 0.003
TOO_NOISY = 0.25  # Where even such a difference may be chance, nothing can be said
FINENESS = 8  # Values nearer to the best than an eighth of it are not told apart by their speed
_SETTLING = 20
_WHOLE = 100
_FEWEST_MB = 16
_UNKNOWN_CPU = Cpu()
Verdict = Literal["best_found", "flat", "current_is_best", "cannot_tell"]


class SweepVerdict(NamedTuple):
    """What a sweep of any kind comes to: one word of its own, why, the best value, and where it turns."""

    verdict: str
    because: str
    best: int | None = None
    knee: int | None = None


class Sample(NamedTuple):
    """The speed of one run."""

    value: int
    round: int
    speed: float


class Choice(NamedTuple):
    """The fastest value and those that are as good; `reach` is how far values may differ by chance."""

    fastest: int
    leaders: tuple[int, ...]
    speeds: dict[int, float]  # By value, as if every value had been in every round
    noise: float
    reach: float

    @property
    def best(self) -> int:
        """The smallest of those that are as good as the fastest: it takes least."""
        return self.leaders[0]

    def behind(self, value: int) -> float:
        """By how much a value is slower than the fastest, as a share."""
        return 1 - self.speeds[value] / self.speeds[self.fastest]


def judge_threads(
    decode: Sequence[Sample], prefill: Sequence[Sample], current: int | None, cpu: Cpu = _UNKNOWN_CPU
) -> SweepVerdict:
    """The best count for generating; the sentence tells that for reading too, and what the cores have to do with it."""
    choice = choose_value(decode)
    verdict = verdict_of(choice, current)
    if choice is None:
        return SweepVerdict(verdict, "too few thread counts were measured, or none twice")
    if verdict == "cannot_tell":
        return SweepVerdict(verdict, f"runs differ by {choice.noise:.0%}: other work interferes")
    said, best, reading = [_decode_words(choice, verdict, current)], choice.best, choose_value(prefill)
    if reading and best in reading.leaders:
        said.append(f"prefill is fastest with the same number, {speed_words(reading.speeds[best])}")
    elif reading:
        gain = reading.speeds[reading.best] / reading.speeds[best] - 1
        more = f"{speed_words(reading.speeds[reading.best])}, {gain:.0%} more than with {best}"
        said.append(f"prefill is fastest with {reading.best} threads (-tb {reading.best}): {more}")
    cores, fast = cpu.physical_cores.value_or(None), cpu.performance_cores.value_or(None)
    beyond = [choice.behind(value) for value in choice.speeds if cores is not None and value > cores]
    if beyond and best <= (cores or 0) and min(beyond) > FELT:
        slower = f"beyond the {cores} physical cores it gets slower"
        said.append(f"{slower}: two threads on one core share its execution units")
    if (slow := cpu.efficiency_cores.value_or(0)) and fast and best <= fast < max(choice.speeds):
        said.append(f"{slow} of the cores are efficiency cores, which the others wait for")
    return SweepVerdict(verdict, "; ".join(said), current if verdict == "current_is_best" else best)


def _decode_words(choice: Choice, verdict: Verdict, current: int | None) -> str:
    *others, last = choice.leaders
    if verdict == "flat":
        told = f"the thread count makes no difference ({speed_words(choice.speeds[choice.fastest])})"
        return f"{told}: the smallest, {choice.best}, leaves the most CPU for other work"
    count, now = choice.best, ""
    if verdict == "current_is_best":
        count, now = current or count, " (current setting)"
    decodes = f"{count} thread decodes at" if count == 1 else f"{count} threads decode at"
    equal = f", and {', '.join(map(str, others))} and {last} are equal within noise" if others else ""
    words = f"{decodes} {speed_words(choice.speeds[count])}{now}{equal}"
    if verdict == "current_is_best" or current is None or current not in choice.speeds:
        return words
    less = f"{speed_words(choice.speeds[current])}, {choice.behind(current):.0%} less"
    return f"{words}; the current {current} gives {less}"


def judge_batch(
    name: str, prefill: Sequence[Sample], current: int | None, memory_bytes: Mapping[int, float]
) -> SweepVerdict:
    """The smallest batch that reads as fast as any: beyond it nothing is gained; `name` is the flag."""
    choice = choose_value(prefill)
    verdict = verdict_of(choice, current)
    if choice is None:
        return SweepVerdict(verdict, "too few sizes were measured, or none twice")
    if verdict == "cannot_tell":
        return SweepVerdict(verdict, f"runs differ by {choice.noise:.0%}: other work interferes")
    said = [_batch_words(name, choice, verdict, current), _memory_words(choice, memory_bytes, current)]
    best = current if verdict == "current_is_best" else choice.best
    return SweepVerdict(verdict, "; ".join(filter(None, said)), best, choice.best)


def _batch_words(name: str, choice: Choice, verdict: Verdict, current: int | None) -> str:
    best, speed = choice.best, speed_words(choice.speeds[choice.best])
    if verdict == "flat":
        return f"{name} makes no difference from {min(choice.speeds)} to {max(choice.speeds)}: prefill runs at {speed}"
    slowest = min(choice.speeds, key=lambda value: choice.speeds[value])
    knee = f"prefill runs at {speed} with {name} {best}, and with {slowest} at {speed_words(choice.speeds[slowest])}"
    knee += "; larger values gain nothing" if best < max(choice.speeds) else ""
    if verdict == "current_is_best":
        return f"{knee}; the current {current} is as fast as any"
    if current in choice.speeds and current is not None:
        return f"{knee}; the current {current} is {choice.behind(current):.0%} slower than the fastest"
    return knee


def _memory_words(choice: Choice, memory_bytes: Mapping[int, float], current: int | None) -> str:
    best = memory_bytes.get(choice.best)
    if best is None:
        return ""
    others = dict.fromkeys([*([current] if current in choice.speeds and current else []), max(choice.speeds)])
    extra = {value: (memory_bytes[value] - best) / MB for value in others if value in memory_bytes}
    needs = {value: f"{abs(mb):.0f} MB {'more' if mb > 0 else 'less'}" for value, mb in extra.items()}
    told = [f"{value} needs {words}" for value, words in needs.items() if abs(extra[value]) > _FEWEST_MB]
    return f"memory: {' and '.join(told)} than {choice.best}" if told else ""


def speed_words(speed: float) -> str:
    """A speed in words."""
    return f"{speed:,.0f} tok/s" if speed >= _WHOLE else f"{speed:.3g} tok/s"


def choose_value(samples: Sequence[Sample]) -> Choice | None:
    """The choice between at least two values, one of them repeated; None where there is not so much."""
    effects, rounds = _effects(samples)
    spare = len(samples) - len(effects) - len(rounds) + 1
    if len(effects) <= 1 or spare <= 0:
        return None
    rest = [math.log(s.speed) - effects[s.value] - rounds[s.round] for s in samples]
    noise = max(LEAST_NOISE, math.sqrt(sum(r * r for r in rest) / spare))
    counts = {value: sum(s.value == value for s in samples) for value in effects}
    fastest = max(effects, key=lambda value: effects[value])
    factor = student_quantile(CONFIDENCE, spare) * noise
    reaches = {v: factor * math.sqrt(1 / counts[v] + 1 / counts[fastest]) for v in effects}
    leaders = [v for v in effects if effects[fastest] - effects[v] <= max(FELT, reaches[v])]
    middle = statistics.fmean(rounds.values())
    speeds = {value: math.exp(effect + middle) for value, effect in sorted(effects.items())}
    return Choice(fastest, tuple(sorted(leaders)), speeds, noise, factor * math.sqrt(2 / max(counts.values())))


def _effects(samples: Sequence[Sample]) -> tuple[dict[int, float], dict[int, float]]:
    """What each value and each round adds to the logarithm of a speed, by least squares."""
    values = dict.fromkeys(sorted({s.value for s in samples}), 0.0)
    rounds = dict.fromkeys(sorted({s.round for s in samples}), 0.0)
    for _ in range(_SETTLING):
        for value in values:
            values[value] = statistics.fmean(math.log(s.speed) - rounds[s.round] for s in samples if s.value == value)
        for number in rounds:
            rounds[number] = statistics.fmean(math.log(s.speed) - values[s.value] for s in samples if s.round == number)
    return values, rounds


def verdict_of(choice: Choice | None, current: int | None) -> Verdict:
    """Whether it pays to change the value."""
    if choice is None or (choice.reach > TOO_NOISY and len(choice.leaders) > 1):
        return "cannot_tell"
    if len(choice.leaders) == len(choice.speeds):
        return "flat"
    return "current_is_best" if current in choice.leaders else "best_found"


def is_clear(choice: Choice | None) -> bool:
    """Whether more rounds would change nothing: one value leads alone, or noise hides nothing that could be felt."""
    return choice is not None and (len(choice.leaders) == 1 or choice.reach <= FELT)


def contenders(samples: Sequence[Sample], always: Sequence[int], within: float, most: int) -> list[int]:
    """The values worth repeating: those that came near the fastest, but two at least, and these; sorted."""
    effects, _ = _effects(samples)
    ranked = sorted(effects, key=lambda value: -effects[value])
    near = [value for value in ranked if effects[ranked[0]] - effects[value] <= within][:most]
    return sorted({*near, *ranked[:2], *(value for value in always if value in effects)})


def first_threads(physical: int | None, fast: int | None, most: int, current: int | None) -> list[int]:
    """The counts to begin with: one, half of the cores, all of them, the fast ones, all that may run, what is set."""
    cores = min(physical or most, most)
    wanted = {1, max(1, cores // 2), cores, min(fast or cores, most), most, current or 1}
    return sorted(value for value in wanted if value >= 1)


def closer_values(speeds: Mapping[int, float]) -> list[int]:
    """The values halfway between the fastest so far and its neighbours; none once they are near enough."""
    tried = sorted(speeds)
    best = max(tried, key=lambda value: speeds[value])
    at, near = tried.index(best), max(1, best // FINENESS)
    between = []
    if at > 0 and best - tried[at - 1] > near:
        between.append((best + tried[at - 1]) // 2)
    if at < len(tried) - 1 and tried[at + 1] - best > near:
        between.append((best + tried[at + 1] + 1) // 2)
    return [value for value in between if value not in speeds]


def gains_no_more(speeds: Mapping[int, float], least: float) -> bool:
    """Whether the two largest values brought less than this over the best of the smaller ones."""
    tried = sorted(speeds)
    before = [speeds[value] for value in tried[:-2]]
    return bool(before) and max(speeds[value] for value in tried[-2:]) < max(before) * (1 + least)
