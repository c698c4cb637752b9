"""The rounds of two sides as pairs, and whether there are enough of them."""

import math
import statistics
from collections.abc import Mapping, Sequence

from unslow.facts.bench import DECODE, PREFILL
from unslow.facts.verified import REQUEST, Sample
from unslow.think.verify.gain import Gain, gain_of

METRICS = (REQUEST, DECODE, PREFILL)
"""The whole request first: it is what one waits for, and decides."""
SLOWER_IS_MORE = frozenset({REQUEST})
FEWEST_ROUNDS = 3
"""Fewer tell nothing about noise."""
FIRST_LOOK, LOOK_EVERY = 6, 1.5
"""Looks after 6, 9, 14, 21 ... rounds: each look is another chance to stop at a lucky moment."""
NARROW, OF_THE_GAIN = 0.015, 0.15
"""An interval is narrow from here on, as a share on either side; of a large gain, a part of it will do."""


def levels(samples: Sequence[Sample], metric: str) -> dict[int, float]:
    """The logarithm of the speed in each round: of several requests in one life of a server, their median."""
    found: dict[int, list[float]] = {}
    for sample in samples:
        value = getattr(sample, metric)
        if value is not None and value > 0:
            found.setdefault(sample.round, []).append(value)
    sign = -1 if metric in SLOWER_IS_MORE else 1
    return {number: sign * math.log(statistics.median(values)) for number, values in found.items()}


def paired(before: Mapping[int, float], after: Mapping[int, float]) -> list[float]:
    """What the second gained over the first, in the rounds that both have."""
    return [after[number] - before[number] for number in sorted(before) if number in after]


def is_enough(before: Sequence[Sample], after: Sequence[Sample]) -> bool:
    """Whether more rounds would tell little more; asked after every round, and answered only at its looks."""
    gains = {metric: paired(levels(before, metric), levels(after, metric)) for metric in METRICS}
    return is_look(len(gains[REQUEST])) and all(is_narrow(gain_of(values)) for values in gains.values() if values)


def is_steady(samples: Sequence[Sample]) -> bool:
    """The same for one side alone, which is held against another one later."""
    values = list(levels(samples, REQUEST).values())
    return is_look(len(values)) and gain_of(values).reach <= NARROW


def is_look(rounds: int) -> bool:
    """Whether it is time to look at what the rounds tell."""
    look = float(FIRST_LOOK)
    while look < rounds:
        look = math.ceil(look * LOOK_EVERY)
    return look == rounds


def is_narrow(gain: Gain) -> bool:
    """Whether the interval says as much as anybody needs."""
    return gain.reach <= max(NARROW, OF_THE_GAIN * abs(gain.middle))
