"""Costs as sums of terms with learned factors, and the intervals of predictions.

Every factor is positive, so a sum of such terms never falls below the time that bandwidth and arithmetic take by
themselves. Numbers may be arrays: a million configurations are priced like one.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from unslow.facts.values import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy import float64
    from numpy.typing import NDArray

    Number = float | NDArray[float64]
else:
    Number = float  # arrays are told apart by their kind, so that NumPy is not loaded for a name

SHARPNESS = 2.0
"""How nearly the longer of two sides is all that counts: 1 is the sum of both, infinity the longer one alone. Of 1,
1.5, 2 and 3, 2 explained best what CPUs took that were measured (lab/fit_speed.py)."""
_INSTANT = 1e-30
KEPT = 4096  # Factors by what they are named after: each setting asks for the same few dozen, and settings are few
SPREAD = {Origin.MEASURED: 1.10, Origin.REPORTED: 1.15, Origin.DATASHEET: 1.15, Origin.ESTIMATED: 2.0}
"""How far the truth may lie from a figure of this origin, as a factor either way. Two publishers of the same card and
quant differ by 9 % in the median, so nothing looked up is sharper than that."""


class Factor(NamedTuple):
    """A learned factor by its name, and the power it is taken to."""

    name: str
    power: Number = 1.0


Factors = tuple[Factor, ...]


class Term(NamedTuple):
    """One cost: the part of the budget it belongs to, its seconds where every factor is one, and the factors."""

    part: str
    seconds: Number
    factors: Factors = ()
    side: str = ""  # Of work that is done while another side works: which one it is. Everything waits for what has none


class Interval(NamedTuple):
    """Low, most likely, high."""

    low: float
    mid: float
    high: float

    def shift(self, by: float) -> Interval:
        """With so much more of what has no spread of its own."""
        return Interval(self.low + by, self.mid + by, self.high + by)


def total_of_terms(terms: Iterable[Term], learned: Mapping[str, float]) -> Number:
    """The seconds of all terms."""
    whole: Number = 0.0
    for _, seconds in term_shares(terms, learned):
        whole = whole + seconds
    return whole


def least_seconds(terms: Iterable[Term]) -> Number:
    """The seconds that nothing can be faster than: of the terms that nothing learned is in."""
    return total_of_terms((term for term in terms if not term.factors), {})


def by_part(terms: Iterable[Term], learned: Mapping[str, float]) -> dict[str, Number]:
    """The seconds of each part of the budget, in the order of the terms."""
    parts: dict[str, Number] = {}
    for term, seconds in term_shares(terms, learned):
        parts[term.part] = parts.get(term.part, 0.0) + seconds
    return parts


def term_shares(terms: Iterable[Term], learned: Mapping[str, float]) -> Iterator[tuple[Term, Number]]:
    """Every term with the seconds that it adds to the sum: less than its own where it is done beside something else."""
    # Sides of s seconds each take t = (sum of s^p)^(1/p) together, and each adds s (s/t)^(p-1) to it.
    alone: list[tuple[Term, Number]] = []
    sides: dict[str, Number] = {}
    for term in terms:
        exponent: Number = 0.0
        for factor in term.factors:  # one that nothing was learned of is one
            exponent = exponent + factor.power * learned.get(factor.name, 0.0)
        times: Number = math.exp(exponent) if isinstance(exponent, (int, float)) else _numpy().exp(exponent)
        seconds = term.seconds * times
        alone.append((term, seconds))
        if term.side:
            sides[term.side] = sides.get(term.side, 0.0) + seconds
    together = side_by_side(sides.values())
    for term, seconds in alone:
        yield term, seconds * (sides[term.side] / together) ** (SHARPNESS - 1) if term.side else seconds


def side_by_side(sides: Iterable[Number]) -> Number:
    """The seconds of work that is done at the same time: a little more than those of the longest side."""
    powers: Number = 0.0
    for seconds in sides:
        powers = powers + seconds**SHARPNESS
    return larger(powers, _INSTANT) ** (1 / SHARPNESS)


def interval_around(value: float, factor: float) -> Interval:
    """The interval that reaches a factor down and up from a value."""
    return Interval(value / factor, value, value * factor)


def inverse_interval(interval: Interval) -> Interval:
    """Seconds per token as tokens per second, or back."""
    return Interval(1 / interval.high, 1 / interval.mid, 1 / interval.low)


def logarithm(x: Number) -> Number:
    """The natural logarithm, element by element."""
    if isinstance(x, (int, float)):
        return math.log(x)
    found: Number = _numpy().log(x)
    return found


def smaller(a: Number, b: Number) -> Number:
    """The smaller of two, element by element."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return min(a, b)
    found: Number = _numpy().minimum(a, b)
    return found


def larger(a: Number, b: Number) -> Number:
    """The larger of two, element by element."""
    return -smaller(-a, -b)


def at_most(a: Number, b: Number) -> Number:
    """1 where the first is no larger than the second, 0 elsewhere."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return 1.0 if a <= b else 0.0
    found: Number = _numpy().less_equal(a, b).astype("float64")
    return found


@cache
def _numpy() -> Any:
    """NumPy takes long to load, and who asks about one case needs none of it."""
    import numpy as np  # noqa: PLC0415  (only once there is an array)

    return np
