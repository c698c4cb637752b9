"""A prediction: seconds for a token, what they are spent on, and what could not be beaten."""

from typing import Literal, NamedTuple

from unslow.think.physics.decode import Part
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
