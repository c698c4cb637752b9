"""Costs as sums of terms: what physics alone gives, times factors that were learned from measurements.

Every factor is positive, so a sum of such terms never falls below the time that bandwidth and arithmetic take by
themselves. Numbers may be arrays: a million configurations are priced like one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unslow.think.physics.numbers import exponential, larger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from unslow.think.physics.numbers import Number

SHARPNESS = 2.0
"""How nearly the longer of two sides is all that counts: 1 is the sum of both, infinity the longer one alone. Of 1,
1.5, 2 and 3, 2 explained best what CPUs took that were measured (lab/fit_speed.py)."""
_INSTANT = 1e-30
KEPT = 4096
"""Factors by what they are named after: each setting asks for the same few dozen, and there are few settings."""


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
    side: str = ""
    """Of work that is done while another side works: which one it is. Everything waits for what has none."""


def priced(term: Term, learned: Mapping[str, float]) -> Number:
    """The seconds of a term by itself; a factor that nothing was learned of is one."""
    exponent: Number = 0.0
    for factor in term.factors:
        exponent = exponent + factor.power * learned.get(factor.name, 0.0)
    return term.seconds * exponential(exponent)


def shares(terms: Iterable[Term], learned: Mapping[str, float]) -> Iterator[tuple[Term, Number]]:
    """Every term with the seconds that it adds to the sum: less than its own where it is done beside something else.

    Sides of s seconds each take t = (sum of s^p)^(1/p) together, and each adds s (s/t)^(p-1) to it.
    """
    alone = [(term, priced(term, learned)) for term in terms]
    sides: dict[str, Number] = {}
    for term, seconds in alone:
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


def total(terms: Iterable[Term], learned: Mapping[str, float]) -> Number:
    """The seconds of all terms."""
    whole: Number = 0.0
    for _, seconds in shares(terms, learned):
        whole = whole + seconds
    return whole


def least(terms: Iterable[Term]) -> Number:
    """The seconds that nothing can be faster than: of the terms that nothing learned is in."""
    return total((term for term in terms if not term.factors), {})


def by_part(terms: Iterable[Term], learned: Mapping[str, float]) -> dict[str, Number]:
    """The seconds of each part of the budget, in the order of the terms."""
    parts: dict[str, Number] = {}
    for term, seconds in shares(terms, learned):
        parts[term.part] = parts.get(term.part, 0.0) + seconds
    return parts
