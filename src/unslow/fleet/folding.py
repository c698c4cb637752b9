"""Answers go into what they tell of at once: no answer is kept, and a text is held once."""

from collections.abc import Callable, Mapping, MutableMapping
from typing import Protocol, TypeVar

from unslow.fleet.answered import Answered
from unslow.fleet.promql import MARK
from unslow.fleet.queries import Part

_RANKS = 16
"""More expressions for the same than any reading has; an order is the place of the voice times this, and the rank."""
LEAST, MOST = 1e-12, 1e15
"""Of a reading, in SI units: less is the rest of a sum, and a petabyte, a petahertz or less than nothing is what an
exporter writes that could not read (2^31 and 2^63 less a few are the blanks of DCGM)."""


class Told(Protocol):
    """Something that readings are kept of."""

    raw: dict[str, tuple[int, float, str]]


T = TypeVar("T", bound=Told)
Find = Callable[[dict[str, str], Part], tuple[T, int] | None]


def fold(
    answered: Answered,
    parts: Mapping[str, Part],
    known: MutableMapping[str, tuple[T, int] | None],
    find: Find[T] | None = None,
    before: str = "",
) -> None:
    """Put every value where it belongs; `known` remembers where, as the same labels come in every answer."""
    for labels, value in answered.series:
        part = parts.get(labels.pop(MARK, ""))
        if part is None or not 0.0 <= value <= MOST:
            continue
        key = "\0".join([*labels, *labels.values()])  # `quick_key`, without the call
        if key not in known:
            known[key] = find(labels, part) if find else None
        place = known[key]
        if place is None:
            continue
        raw, order = place[0].raw, place[1] * _RANKS + part.rank
        quantity = before + part.quantity if before else part.quantity
        held = raw.get(quantity)
        if held is None or order < held[0]:
            raw[quantity] = (order, value if value >= LEAST else 0.0, part.source)
