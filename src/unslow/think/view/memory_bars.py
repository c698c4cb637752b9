"""What lies in a memory as a bar: parts that add up to its capacity, and beyond its end what finds no room."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from unslow.think.fit.shown import Parts
from unslow.think.hardware import Room
from unslow.think.view.report import MemoryBar, MemoryPart

UNNAMED = "other programs, not named"
_NO_ROOM = "no room for this"
_ORDER = ("weights", "kv", "compute", "stranger", "reserve")
"""In which parts lie; others and the reserve have their room first."""
_MOST_NAMED = 8
"""Strangers that are told apart; the smaller ones are one part."""


class Stranger(NamedTuple):
    """A program that holds memory of a device; None where nothing tells how much."""

    name: str
    bytes: int | None


class Asked(NamedTuple):
    """What a model asks of a memory, and what else it needs there."""

    parts: Parts
    context_bytes: int = 0
    """What the runtime holds before it has any buffer."""
    later_bytes: int = 0
    """What the first prompt takes beside all buffers."""
    beside_bytes: int = 0
    """Of a memory that the host shares: what the runtime asks of it as the host's, which is in `parts` too."""


def bar_of(room: Room, asked: Asked, strangers: Sequence[Stranger] = (), *, is_host: bool = False) -> MemoryBar:
    """The bar of a memory whose size is known."""
    kept = max(0, room.reserve_bytes + asked.context_bytes + asked.later_bytes - asked.beside_bytes)
    others = named_strangers(min(room.others_bytes, room.capacity_bytes), strangers, is_host=is_host)
    wanted = [*others, *_reserve(kept, asked.later_bytes), *_own_parts(asked.parts)]
    held, lacking = _cut(wanted, room.capacity_bytes)
    free = room.capacity_bytes - sum(part.bytes for part in held)
    ends = [
        *([MemoryPart(kind="free", name="free", bytes=free)] if free > 0 else []),
        *([MemoryPart(kind="lacking", name=_NO_ROOM, bytes=lacking)] if lacking else []),
    ]
    return MemoryBar(
        name=room.name,
        is_host=is_host,
        capacity_bytes=room.capacity_bytes,
        parts=(*sorted(held, key=lambda part: _ORDER.index(part.kind)), *ends),
        fits=not lacking,
    )


def bar_without_size(name: str, parts: Parts, *, is_host: bool) -> MemoryBar:
    """The bar of a memory of which nobody knows how large it is."""
    return MemoryBar(name=name, is_host=is_host, parts=tuple(_own_parts(parts)))


def _own_parts(parts: Parts) -> list[MemoryPart]:
    every = (
        MemoryPart(kind="weights", name="weights", bytes=parts.weights),
        MemoryPart(kind="kv", name="KV cache", bytes=parts.cache),
        MemoryPart(kind="compute", name="compute buffers", bytes=parts.compute),
    )
    return [part for part in every if part.bytes]


def _reserve(kept: int, later: int) -> list[MemoryPart]:
    """What nobody gets: the driver's and the runtime's own first, which a shared memory may have less of."""
    later = min(kept, later)
    every = (
        MemoryPart(kind="reserve", name="driver and runtime", bytes=kept - later),
        MemoryPart(kind="reserve", name="for the first prompt", bytes=later),
    )
    return [part for part in every if part.bytes]


def _cut(parts: Sequence[MemoryPart], room: int) -> tuple[list[MemoryPart], int]:
    """The parts as far as there is room, and what is left over of them together."""
    left, found = room, []
    for part in parts:
        held = min(part.bytes, left)
        left -= held
        found.append(part if held == part.bytes else _partly(part, held))
    return found, sum(part.bytes for part in parts) - (room - left)


def _partly(part: MemoryPart, held: int) -> MemoryPart:
    return msgspec.structs.replace(part, bytes=held, wanted_bytes=part.bytes)


def named_strangers(held: int, strangers: Sequence[Stranger], *, is_host: bool = False) -> list[MemoryPart]:
    """What others hold, by their names: the largest first, and never more than is gone."""
    known = sorted(_together(s for s in strangers if s.bytes), key=lambda s: -(s.bytes or 0))
    found, left = [], held
    for stranger in known[:_MOST_NAMED]:
        size = min(left, stranger.bytes or 0)
        left -= size
        if size:
            found.append(MemoryPart(kind="stranger", name=stranger.name, bytes=size))
    if left > 0:
        name = "other programs and the system" if is_host else _rest_of(strangers, len(known) - _MOST_NAMED)
        found.append(MemoryPart(kind="stranger", name=name, bytes=left))
    return found


def _together(strangers: Iterable[Stranger]) -> list[Stranger]:
    """Those of one name as one, with their number."""
    sizes: dict[str, list[int]] = {}
    for stranger in strangers:
        sizes.setdefault(stranger.name, []).append(stranger.bytes or 0)
    return [
        Stranger(f"{name} ({len(each)} processes)" if len(each) > 1 else name, sum(each))
        for name, each in sizes.items()
    ]


def _rest_of(strangers: Sequence[Stranger], beyond: int) -> str:
    """What is in use and nobody counted: by the names of those whose size the driver does not tell."""
    names = list(dict.fromkeys(stranger.name for stranger in strangers if not stranger.bytes))
    if names:
        return f"{', '.join(names[:3])}{' and others' if len(names) > 3 else ''}: sizes not told"  # noqa: PLR2004
    return f"{beyond} smaller programs, and what is not named" if beyond > 0 else UNNAMED
