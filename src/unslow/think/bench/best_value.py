"""Which value of a setting is fastest, from runs in rounds: every round tries each of them once.

A slow minute touches all values of its round, so what a round shares is taken out before values are compared. What is
left over is the noise of a single run; a value that lies behind the fastest by no more than that could explain is as
good as the fastest. Values that were clearly slow need not be in every round.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from unslow.think.bench.student import quantile

CONFIDENCE = 0.95
FELT = 0.02
"""A smaller difference in speed is nobody's concern, however surely it is there."""
LEAST_NOISE = 0.003
TOO_NOISY = 0.25
"""Where even such a difference may be chance, nothing can be said."""
_SETTLING = 20

Verdict = Literal["best_found", "flat", "current_is_best", "cannot_tell"]


class Sample(NamedTuple):
    """The speed of one run."""

    value: int
    round: int
    speed: float


class Choice(NamedTuple):
    """The fastest value and those that are as good; `reach` is how far values may differ by chance."""

    fastest: int
    leaders: tuple[int, ...]
    speeds: dict[int, float]
    """By value, as if every value had been in every round."""
    noise: float
    reach: float

    @property
    def best(self) -> int:
        """The smallest of those that are as good as the fastest: it takes least."""
        return self.leaders[0]

    def behind(self, value: int) -> float:
        """By how much a value is slower than the fastest, as a share."""
        return 1 - self.speeds[value] / self.speeds[self.fastest]


def chosen(samples: Sequence[Sample]) -> Choice | None:
    """The choice between at least two values, one of them repeated; None where there is not so much."""
    effects, rounds = _effects(samples)
    spare = len(samples) - len(effects) - len(rounds) + 1
    if len(effects) <= 1 or spare <= 0:
        return None
    rest = [math.log(s.speed) - effects[s.value] - rounds[s.round] for s in samples]
    noise = max(LEAST_NOISE, math.sqrt(sum(r * r for r in rest) / spare))
    counts = {value: sum(s.value == value for s in samples) for value in effects}
    fastest = max(effects, key=lambda value: effects[value])
    factor = quantile(CONFIDENCE, spare) * noise
    reaches = {v: factor * math.sqrt(1 / counts[v] + 1 / counts[fastest]) for v in effects}
    leaders = [v for v in effects if effects[fastest] - effects[v] <= max(FELT, reaches[v])]
    middle = statistics.fmean(rounds.values())
    speeds = {value: math.exp(effect + middle) for value, effect in sorted(effects.items())}
    most = max(counts.values())
    return Choice(fastest, tuple(sorted(leaders)), speeds, noise, factor * math.sqrt(2 / most))


def _effects(samples: Sequence[Sample]) -> tuple[dict[int, float], dict[int, float]]:
    """What each value and each round adds to the logarithm of a speed, by least squares."""
    values = dict.fromkeys(sorted({s.value for s in samples}), 0.0)
    rounds = dict.fromkeys(sorted({s.round for s in samples}), 0.0)
    for _ in range(_SETTLING):
        for value in values:
            own = [math.log(s.speed) - rounds[s.round] for s in samples if s.value == value]
            values[value] = statistics.fmean(own)
        for number in rounds:
            own = [math.log(s.speed) - values[s.value] for s in samples if s.round == number]
            rounds[number] = statistics.fmean(own)
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
