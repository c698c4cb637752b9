"""Whether a model fits under Transformers, and where its device map puts it."""

from collections.abc import Sequence

from unslow.facts.hf_shape import HfShape
from unslow.think.fit.report import MemoryShown
from unslow.think.fit.rooms import Room
from unslow.think.fit.vllm import Answer
from unslow.think.memory.held import Held
from unslow.think.memory.parts import Part
from unslow.think.memory.transformers.plan import TransformersMemory, longest_context, transformers_memory
from unslow.think.memory.transformers.settings import Settings


def transformers_answer(
    shape: HfShape, parts: Sequence[Part], settings: Settings, rooms: Sequence[Room], host: Room | None
) -> Answer:
    """On these cards and, where they are too small, on the host."""
    free = [room.usable_bytes for room in rooms]
    host_free = host.usable_bytes if host else 0
    memory = transformers_memory(shape, parts, settings, free, host_free)
    on_cards = bool(rooms) and memory.host.weights_bytes + memory.disk_bytes == 0
    fits = memory.fits and (on_cards or not rooms)
    longest = longest_context(shape, parts, settings, free, host_free) if fits else 0
    trained = shape.positions or longest
    devices = tuple(_shown(h, r.name, r, f) for h, r, f in zip(memory.devices, rooms, free, strict=True))
    shown_host = _shown(memory.host, "host", host, host_free)
    needed = sum(shown.total_bytes for shown in (*devices, shown_host))
    return Answer(devices, shown_host, fits, min(longest, trained) or None, needed, _notes(memory))


def _shown(held: Held, name: str, room: Room | None, free: int) -> MemoryShown:
    total = held.weights_bytes + held.kv_bytes + held.compute_bytes
    parts = {"weights_bytes": held.weights_bytes, "kv_bytes": held.kv_bytes, "compute_bytes": held.compute_bytes}
    if room is None:
        return MemoryShown(name=name, **parts, total_bytes=total, free_bytes=None, fits=None)
    left = free - held.total.mid
    return MemoryShown(
        name=name, **parts, total_bytes=total, free_bytes=max(0, left), fits=left >= 0, lacking_bytes=max(0, -left),
        capacity_bytes=room.capacity_bytes, others_bytes=room.others_bytes,
        reserve_bytes=room.capacity_bytes - room.others_bytes - free + held.other_bytes,
    )  # fmt: skip


def _notes(memory: TransformersMemory) -> tuple[str, ...]:
    cards = len(memory.devices)
    on_host = sum(place == cards for place in memory.places) if cards else 0
    on_disk = sum(place > cards for place in memory.places) if cards else 0
    notes = []
    if on_host or on_disk:
        notes.append(f"device_map puts {on_host} modules on the host and {on_disk} on the disk: very slow")
    return tuple(notes)
