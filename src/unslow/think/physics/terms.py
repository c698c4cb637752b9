"""Costs as sums of terms: what physics alone gives, times factors that were learned from measurements.

Every factor is positive, so a sum of such terms never falls below the time that bandwidth and arithmetic take by
themselves. Numbers may be arrays: a million configurations are priced like one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unslow.think.physics.numbers import exponential

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unslow.think.physics.numbers import Number


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


def priced(term: Term, learned: Mapping[str, float]) -> Number:
    """The seconds of a term; a factor that nothing was learned of is one."""
    exponent: Number = 0.0
    for factor in term.factors:
        exponent = exponent + factor.power * learned.get(factor.name, 0.0)
    return term.seconds * exponential(exponent)


def total(terms: Iterable[Term], learned: Mapping[str, float]) -> Number:
    """The seconds of all terms."""
    seconds: Number = 0.0
    for term in terms:
        seconds = seconds + priced(term, learned)
    return seconds


def least(terms: Iterable[Term]) -> Number:
    """The seconds that nothing can be faster than: of the terms that nothing learned is in."""
    return total((term for term in terms if not term.factors), {})


def by_part(terms: Iterable[Term], learned: Mapping[str, float]) -> dict[str, Number]:
    """The seconds of each part of the budget, in the order of the terms."""
    parts: dict[str, Number] = {}
    for term in terms:
        parts[term.part] = parts.get(term.part, 0.0) + priced(term, learned)
    return parts
