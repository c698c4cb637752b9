"""Whether a model fits under vLLM: it takes a share of every card, and what weights and peaks leave is its cache."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.hf_shape import HfShape
from unslow.think.fit.report import MemoryShown
from unslow.think.fit.rooms import Room
from unslow.think.memory.held import Held
from unslow.think.memory.parts import Part
from unslow.think.memory.vllm.plan import VllmMemory, vllm_memory
from unslow.think.memory.vllm.settings import Settings


class Answer(NamedTuple):
    """What the cards hold, and what that serves."""

    devices: tuple[MemoryShown, ...]
    host: MemoryShown
    fits: bool
    max_context: int | None
    needed_bytes: int
    """For one request, without what only fills the cards."""
    notes: tuple[str, ...]


def vllm_answer(shape: HfShape, parts: Sequence[Part], settings: Settings, rooms: Sequence[Room]) -> Answer:
    """On the cards that are there, which share every layer."""
    cards = settings._replace(tensor_parallel=len(rooms))
    smallest = min(room.capacity_bytes - room.reserve_bytes for room in rooms)
    memory = vllm_memory(shape, parts, cards, smallest)
    longest = vllm_memory(
        shape, parts, cards._replace(max_model_len=shape.positions or settings.max_model_len), smallest
    )
    busy = max((room.others_bytes for room in rooms), default=0)
    room_left = cards.utilization * smallest + busy <= smallest
    devices = tuple(_shown(held, room, memory) for held, room in zip(memory.devices, rooms, strict=True))
    host = MemoryShown(
        name="host", weights_bytes=0, kv_bytes=0, compute_bytes=0, total_bytes=0, free_bytes=None, fits=None
    )
    notes = _notes(memory, settings, others=not room_left)
    needed = sum(h.weights_bytes + h.compute_bytes + memory.needed_bytes for h in memory.devices)
    return Answer(devices, host, memory.fits and room_left, longest.max_model_len or None, needed, notes)


def _shown(held: Held, room: Room, memory: VllmMemory) -> MemoryShown:
    total = held.weights_bytes + held.kv_bytes + held.compute_bytes
    left = room.capacity_bytes - room.others_bytes - room.reserve_bytes - held.other_bytes - total
    lacking = 0 if memory.fits else max(1, memory.needed_bytes - max(0, memory.available.mid))
    return MemoryShown(
        name=room.name, weights_bytes=held.weights_bytes, kv_bytes=held.kv_bytes, compute_bytes=held.compute_bytes,
        total_bytes=total, free_bytes=max(0, left), fits=memory.fits and left >= 0, lacking_bytes=max(lacking, -left),
        capacity_bytes=room.capacity_bytes, others_bytes=room.others_bytes,
        reserve_bytes=room.reserve_bytes + held.other_bytes,
    )  # fmt: skip


def _notes(memory: VllmMemory, settings: Settings, *, others: bool) -> tuple[str, ...]:
    low, high = memory.kv_tokens_range
    served = f"{memory.max_concurrency:.1f} requests of {settings.max_model_len:,} tokens at once"
    notes = [f"the cache holds about {memory.kv_tokens:,} tokens ({low:,} to {high:,}): {served}"]
    if others:
        notes.append("vLLM does not start: other processes hold memory of the share that it asks for")
    if memory.available.mid <= 0:
        notes.append("the weights and the peak of a first run alone are more than its share of the card")
    return tuple(notes)
