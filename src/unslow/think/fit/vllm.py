"""Whether a model fits under vLLM: it takes a share of every card, and what weights and peaks leave is its cache."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.catalog.weight_parts import Part
from unslow.facts.hf_shape import HfShape
from unslow.facts.units import GIB
from unslow.think.fit.report import MemoryShown, Verdict
from unslow.think.fit.shown import Parts, shown_memory
from unslow.think.hardware import Room
from unslow.think.memory.held import Held
from unslow.think.memory.vllm.plan import VllmMemory, vllm_memory
from unslow.think.memory.vllm.settings import Settings

SHORTEST_USEFUL = 2048
"""Tokens: a chat of a few turns. A server for less than that is of no use to anybody."""


class Answer(NamedTuple):
    """What the cards hold, and what that serves."""

    devices: tuple[MemoryShown, ...]
    host: MemoryShown
    verdict: Verdict
    max_context: int | None
    needed_bytes: int
    """For one request, without what only fills the cards."""
    notes: tuple[str, ...]
    context: int = 0
    """What it is answered for."""


def vllm_answer(
    shape: HfShape, parts: Sequence[Part], settings: Settings, rooms: Sequence[Room], *, shortens: bool = False
) -> Answer:
    """On the cards that are there, which share every layer.

    With `shortens` the context is a wish: the longest that surely fits is answered for where it does not.
    """
    cards = settings._replace(tensor_parallel=len(rooms))
    smallest = min(room.capacity_bytes - room.reserve_bytes for room in rooms)
    memory = vllm_memory(shape, parts, cards, smallest)
    wished, sure = memory, memory.max_model_len_low
    if shortens and cards.max_model_len > sure:
        shorter = max(sure, min(SHORTEST_USEFUL, cards.max_model_len))
        cards = cards._replace(max_model_len=shorter)
        memory = vllm_memory(shape, parts, cards, smallest)
    trained = cards._replace(max_model_len=max(shape.positions, cards.max_model_len))
    longest = vllm_memory(shape, parts, trained, smallest)
    crowded = any(room.others_bytes > (1 - cards.utilization) * smallest for room in rooms)
    devices = tuple(_shown(held, room, memory) for held, room in zip(memory.devices, rooms, strict=True))
    needed = sum(d.total_bytes for d in devices)
    shortened = _shortened(wished, settings, cards) if memory.fits else ()
    notes = (*_notes(memory, cards, crowded=crowded), *shortened)
    return Answer(
        devices, shown_memory("host", Parts(0, 0, 0), None), _verdict(memory, crowded=crowded),
        longest.max_model_len_low or longest.max_model_len or None, needed, notes, cards.max_model_len,
    )  # fmt: skip


def _verdict(memory: VllmMemory, *, crowded: bool) -> Verdict:
    """Tight where it starts unless the first run of this model takes more than such runs usually do."""
    if crowded or not memory.fits:
        return "does_not_fit"
    return "fits" if memory.needed_bytes <= memory.available.low else "tight"


def _shown(held: Held, room: Room, memory: VllmMemory) -> MemoryShown:
    """What one request needs, within vLLM's share of the card: the rest of the share is cache for more requests."""
    parts = Parts(held.weights_bytes, memory.needed_bytes, held.compute_bytes)
    usable = memory.available.mid + held.weights_bytes + held.compute_bytes
    beyond = max(0, room.usable_bytes - usable)
    margin = memory.available.mid - memory.available.low
    return shown_memory(room.name, parts, room, beyond, margin=margin)


def _shortened(wished: VllmMemory, settings: Settings, cards: Settings) -> tuple[str, ...]:
    if cards.max_model_len == settings.max_model_len:
        return ()
    lacking = (wished.needed_bytes - wished.available.mid) / GIB
    why = f"lacks {lacking:.1f} GiB on each card" if lacking > 0 else "may not find room at the first start"
    return (f"the {settings.max_model_len:,} tokens that the model was trained for do not fit: one such request {why}",)


def _notes(memory: VllmMemory, settings: Settings, *, crowded: bool) -> tuple[str, ...]:
    notes = [f"vLLM takes {settings.utilization:.0%} of each card (--gpu-memory-utilization) and fills it with cache"]
    if memory.kv_tokens:
        low, high = memory.kv_tokens_range
        served = f"{memory.max_concurrency:.1f} requests of {settings.max_model_len:,} tokens at once"
        notes.insert(
            0, f"the cache of all cards holds about {memory.kv_tokens:,} tokens ({low:,} to {high:,}): {served}"
        )
    if crowded:
        notes.append("vLLM does not start: other processes hold memory of the share that it asks for")
    if memory.available.mid <= 0:
        notes.append("the weights and the peak of a first run alone are more than vLLM's share of a card")
    return tuple(notes)
