"""What a runtime asks of a memory, beside what that memory has; and the verdict over all of them."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.units import GIB
from unslow.think.fit.report import MemoryShown, Verdict
from unslow.think.hardware import Room

_MUCH = 4 * GIB
"""A host has so much; a model that asks more of one whose memory nobody knows can't be judged."""


class Parts(NamedTuple):
    """Bytes that a runtime asks for."""

    weights: int
    cache: int
    compute: int


def shown_memory(
    name: str, parts: Parts, room: Room | None, context: int = 0, used_later: int = 0, margin: int = 0
) -> MemoryShown:
    """The parts in a room: `context` lies there before any buffer, `used_later` is taken by the first prompt."""
    total = sum(parts)
    sizes = {"weights_bytes": parts.weights, "kv_bytes": parts.cache, "compute_bytes": parts.compute}
    if room is None:
        return MemoryShown(name=name, **sizes, total_bytes=total, free_bytes=None, fits=None)
    left = room.usable_bytes - context - total
    return MemoryShown(
        name=name, **sizes, total_bytes=total, free_bytes=max(0, left), fits=left >= used_later,
        lacking_bytes=max(0, used_later - left), capacity_bytes=room.capacity_bytes, others_bytes=room.others_bytes,
        reserve_bytes=room.reserve_bytes + context, margin_bytes=margin,
    )  # fmt: skip


def verdict_of(devices: Sequence[MemoryShown], host: MemoryShown, *, layers_fit: bool) -> Verdict:
    """The verdict; `layers_fit` is whether GPUs and host together would hold it, placed in another way."""
    if any(memory.fits is False for memory in (*devices, host)):
        return "partly" if layers_fit else "does_not_fit"
    if host.fits is None and host.total_bytes > _MUCH:
        return "cannot_tell"
    tight = any((d.free_bytes or 0) < d.margin_bytes for d in devices if d.total_bytes)
    return "tight" if tight else "fits"


FITS: dict[Verdict, bool | None] = {
    "fits": True, "tight": True, "partly": False, "does_not_fit": False, "cannot_tell": None
}  # fmt: skip
