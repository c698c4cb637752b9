"""Whether a model fits under vLLM: it takes a share of every card, and what weights and peaks leave is its cache."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from unslow.facts.hf_shape import HfShape
from unslow.think.fit.report import MemoryShown, Verdict
from unslow.think.fit.rooms import Room
from unslow.think.fit.shown import Parts, shown_memory
from unslow.think.memory.held import Held
from unslow.think.memory.parts import Part
from unslow.think.memory.vllm.plan import VllmMemory, vllm_memory
from unslow.think.memory.vllm.settings import Settings


class Answer(NamedTuple):
    """What the cards hold, and what that serves."""

    devices: tuple[MemoryShown, ...]
    host: MemoryShown
    verdict: Verdict
    max_context: int | None
    needed_bytes: int
    """For one request, without what only fills the cards."""
    notes: tuple[str, ...]


def vllm_answer(shape: HfShape, parts: Sequence[Part], settings: Settings, rooms: Sequence[Room]) -> Answer:
    """On the cards that are there, which share every layer."""
    cards = settings._replace(tensor_parallel=len(rooms))
    smallest = min(room.capacity_bytes - room.reserve_bytes for room in rooms)
    memory = vllm_memory(shape, parts, cards, smallest)
    trained = cards._replace(max_model_len=shape.positions or settings.max_model_len)
    longest = vllm_memory(shape, parts, trained, smallest).max_model_len
    crowded = any(room.others_bytes > (1 - cards.utilization) * smallest for room in rooms)
    devices = tuple(_shown(held, room, memory) for held, room in zip(memory.devices, rooms, strict=True))
    host = shown_memory("host", Parts(0, 0, 0), None)
    verdict: Verdict = "fits" if memory.fits and not crowded else "does_not_fit"
    needed = sum(h.weights_bytes + h.compute_bytes + memory.needed_bytes for h in memory.devices)
    return Answer(devices, host, verdict, longest or None, needed, _notes(memory, settings, crowded=crowded))


def _shown(held: Held, room: Room, memory: VllmMemory) -> MemoryShown:
    """What fits vLLM's share of a card fits; what does not lacks the room of one request."""
    parts = Parts(held.weights_bytes, held.kv_bytes, held.compute_bytes)
    shown = shown_memory(room.name, parts, room, held.other_bytes)
    if memory.fits:
        return shown
    lacking = memory.needed_bytes - memory.available.mid
    return msgspec.structs.replace(shown, fits=False, lacking_bytes=max(lacking, shown.lacking_bytes))


def _notes(memory: VllmMemory, settings: Settings, *, crowded: bool) -> tuple[str, ...]:
    notes = []
    if memory.kv_tokens:
        low, high = memory.kv_tokens_range
        served = f"{memory.max_concurrency:.1f} requests of {settings.max_model_len:,} tokens at once"
        notes.append(f"the cache of all cards holds about {memory.kv_tokens:,} tokens ({low:,} to {high:,}): {served}")
    if not memory.fits:
        notes.append(f"vLLM takes {settings.utilization:.0%} of each card (--gpu-memory-utilization)")
    if crowded:
        notes.append("vLLM does not start: other processes hold memory of the share that it asks for")
    if memory.available.mid <= 0:
        notes.append("the weights and the peak of a first run alone are more than vLLM's share of a card")
    return tuple(notes)
