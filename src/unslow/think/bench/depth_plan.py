"""Which depths to measure: each twice as deep as the one before, up to what the context holds."""

from collections.abc import Iterable

USUAL_FIRST = 512
FEWEST = 5
"""Depths that tell a line from a step."""
UNKNOWN_CONTEXT = 4096
ROOM_TOKENS = 64
"""Of the context, for what a chat template adds and for tokens that were counted wrong."""
_WORTH_A_DEPTH = 1.25


def room_for(context: int | None, tokens: int) -> int:
    """The deepest prompt that leaves room for an answer."""
    return max(0, (context or UNKNOWN_CONTEXT) - tokens - ROOM_TOKENS)


def usual_depths(room: int) -> list[int]:
    """From 512 on, or from less where the context is small; the last is all that there is room for."""
    first = USUAL_FIRST
    while first * 2 ** (FEWEST - 1) > room and first > 1:
        first //= 2
    found = [first]
    while found[-1] * 2 <= room:
        found.append(found[-1] * 2)
    return [*found, room] if room >= _WORTH_A_DEPTH * found[-1] else found


def asked_depths(values: Iterable[float]) -> list[int]:
    """What the user wants, in order; 0 stands for the shortest prompt that there is."""
    return sorted({max(1, round(value)) for value in values})


def between(before: float, beyond: float) -> int | None:
    """A depth in the middle; None where the two are as near as matters."""
    return round((before + beyond) / 2) if beyond > _WORTH_A_DEPTH * before else None
