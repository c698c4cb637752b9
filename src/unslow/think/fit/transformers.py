"""Whether a model fits under Transformers, and where its device map puts it."""

from collections.abc import Sequence

from unslow.catalog.weight_parts import Part
from unslow.facts.hf_shape import HfShape
from unslow.think.fit.report import MemoryShown
from unslow.think.fit.shown import Parts, shown_memory, verdict_of
from unslow.think.fit.vllm import Answer
from unslow.think.hardware import Room
from unslow.think.memory.held import Held
from unslow.think.memory.transformers.plan import TransformersMemory, longest_context, transformers_memory
from unslow.think.memory.transformers.settings import Settings

_LARGE_HOST = 2**43


def transformers_answer(
    shape: HfShape, parts: Sequence[Part], settings: Settings, rooms: Sequence[Room], host: Room | None
) -> Answer:
    """On these cards and, where they are too small, on the host; a host that nobody knows is taken to be large."""
    free = [room.usable_bytes for room in rooms]
    host_free = _LARGE_HOST if host is None else host.usable_bytes
    memory = transformers_memory(shape, parts, settings, free, host_free)
    spilled = bool(rooms) and memory.host.weights_bytes + memory.disk_bytes > 0
    fits = memory.fits and not spilled
    longest = longest_context(shape, parts, settings, free, host_free) if fits else 0
    devices = tuple(_shown(h, r.name, r) for h, r in zip(memory.devices, rooms, strict=True))
    shown_host = _shown(memory.host, "host", host)
    verdict = "partly" if memory.fits and spilled else verdict_of(devices, shown_host, layers_fit=False)
    needed = sum(shown.total_bytes for shown in (*devices, shown_host))
    most = min(longest, shape.positions or longest) or None
    return Answer(devices, shown_host, verdict, most, needed, _notes(memory))


def _shown(held: Held, name: str, room: Room | None) -> MemoryShown:
    parts = Parts(held.weights_bytes, held.kv_bytes, held.compute_bytes)
    return shown_memory(name, parts, room, held.other_bytes)


def _notes(memory: TransformersMemory) -> tuple[str, ...]:
    cards = len(memory.devices)
    on_host = sum(place == cards for place in memory.places) if cards else 0
    on_disk = sum(place > cards for place in memory.places) if cards else 0
    if not on_host and not on_disk:
        return ()
    where = [f"{on_host} on the host"] * bool(on_host) + [f"{on_disk} on the disk"] * bool(on_disk)
    return (f"device_map puts {' and '.join(where)} of {len(memory.places)} modules: very slow",)
