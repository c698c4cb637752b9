"""The verdict on one figure: faster, slower, the same, or it can't be told."""

import math

from unslow.facts.bench import Change
from unslow.think.verify.gain import Gain

SAME = 0.03
"""Two are the same where a difference of this share, either way, is excluded: nobody feels less."""
_SAME_LOG = math.log1p(SAME)
_TWICE = math.log(2)


def verdict_of(gain: Gain) -> Change:
    """The same comes first: a difference that is sure and that nobody feels is none."""
    if gain.low >= -_SAME_LOG and gain.high <= _SAME_LOG:
        return "same"
    if gain.low > 0:
        return "faster"
    return "slower" if gain.high < 0 else "cannot_tell"


def because_of(gain: Gain, verdict: Change) -> str:
    """The verdict in words, with the numbers that make it."""
    middle, low, high = _shares(gain)
    seen = f"{middle} (95 % sure: {low} to {high})"
    match verdict:
        case "same":
            return f"no difference that anybody feels: {seen}"
        case "cannot_tell" if gain.pairs <= 1:
            return f"{middle} in the only round: one round says nothing about noise"
        case "cannot_tell":
            return f"can't be told from noise: {seen}"
        case _:
            return f"{verdict}: {seen}"


def _shares(gain: Gain) -> list[str]:
    """The middle and both ends: as percents where the gain is small, else as multiples."""
    ratios = [math.exp(value) for value in (gain.middle, gain.low, gain.high)]
    if abs(gain.middle) > _TWICE:
        return [f"×{ratio:.2f}" for ratio in ratios]
    return [f"{ratio - 1:+.1%}" for ratio in ratios]
