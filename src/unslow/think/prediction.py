"""A prediction: seconds for a token, what they are spent on, and what could not be beaten."""

from typing import Literal, NamedTuple

from unslow.think.physics.decode import CROWD, Part
from unslow.think.physics.interval import Interval, inverse


class Prediction(NamedTuple):
    """Seconds for a token, its parts, and what bandwidth alone would allow; of a prompt, arithmetic alone."""

    seconds: Interval
    parts: list[Part]
    ceiling: float
    basis: Literal["calibrated", "catalog"] = "catalog"

    @property
    def tokens_per_s(self) -> Interval:
        """The same as a rate; nothing beats the bandwidth."""
        low, mid, high = inverse(self.seconds)
        return Interval(low, mid, min(high, self.ceiling)) if self.ceiling > mid else Interval(low, mid, high)


def is_of_host(part: str) -> bool:
    """Whether a part of the budget is the CPU's work on the model."""
    return part.startswith("host ") or part == CROWD


def host_share(prediction: Prediction) -> float:
    """How much of a token's time the CPU takes with its part of the layers, by physics."""
    total = sum(part.seconds for part in prediction.parts)
    return sum(p.seconds for p in prediction.parts if is_of_host(p.name)) / total if total else 0.0
