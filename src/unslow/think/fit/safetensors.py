"""Whether a checkpoint fits vLLM, whose cards share every layer, or Transformers, which spills to the host."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.catalog.weight_parts import Part
from unslow.facts.model import HfShape
from unslow.facts.values import GIB
from unslow.think.fit.answers import shown_held, shown_memory, verdict_of
from unslow.think.fit.report import MemoryShown, Verdict
from unslow.think.hardware import Room
from unslow.think.memory.footprint import DeviceBytes
from unslow.think.memory.llama_cpp.need import Need
from unslow.think.memory.transformers import TransformersSettings, longest_transformers_context, transformers_memory
from unslow.think.memory.vllm import VllmMemory, VllmSettings, vllm_memory

SHORTEST_USEFUL = 2048  # tokens: a chat of a few turns. A server for less than that is of no use to anybody
LARGE_HOST = 2**43  # of an unknown host


class FitAnswer(NamedTuple):
    """What the cards hold, and what that serves."""

    devices: tuple[MemoryShown, ...]
    host: MemoryShown
    verdict: Verdict
    max_context: int | None
    needed_bytes: int  # For one request, without what only fills the cards
    notes: tuple[str, ...]
    context: int = 0  # What it is answered for


def vllm_answer(
    shape: HfShape, parts: Sequence[Part], settings: VllmSettings, rooms: Sequence[Room], *, shortens: bool = False
) -> FitAnswer:
    """On the cards that are there, which share every layer.

    With `shortens` the context is a wish: the longest that surely fits is answered for where it does not.
    """
    cards = settings._replace(tensor_parallel=len(rooms))
    smallest = min(room.capacity_bytes - room.reserve_bytes for room in rooms)
    memory = vllm_memory(shape, parts, cards, smallest)
    wished, sure = memory, memory.max_model_len_low
    if shortens and cards.max_model_len > sure:
        cards = cards._replace(max_model_len=max(sure, min(SHORTEST_USEFUL, cards.max_model_len)))
        memory = vllm_memory(shape, parts, cards, smallest)
    trained = cards._replace(max_model_len=max(shape.positions, cards.max_model_len))
    longest = vllm_memory(shape, parts, trained, smallest)
    crowded = any(room.others_bytes > (1 - cards.utilization) * smallest for room in rooms)
    devices = tuple(_vllm_shown(held, room, memory) for held, room in zip(memory.devices, rooms, strict=True))
    needed = sum(d.total_bytes for d in devices)
    # Tight where it starts unless the first run of this model takes more than such runs usually do
    verdict: Verdict = "fits" if memory.needed_bytes <= memory.available.low else "tight"
    share = f"vLLM takes {cards.utilization:.0%} of each card (--gpu-memory-utilization)"
    notes = [f"{share}; KV cache fills what is left of that"]
    if memory.kv_tokens:
        low, high = memory.kv_tokens_range
        served = f"{memory.max_concurrency:.1f} requests of {cards.max_model_len:,} tokens at once"
        held = f"the KV cache of all cards holds about {memory.kv_tokens:,} tokens ({low:,} to {high:,})"
        notes.insert(0, f"{held}: {served}")
    if crowded:
        notes.append("vLLM does not start: other processes hold part of the memory that it asks for")
    if memory.available.mid <= 0:
        notes.append("the weights and the peak of the profiling run alone exceed vLLM's share of a card")
    if memory.fits and cards.max_model_len != settings.max_model_len:
        lacking = (wished.needed_bytes - wished.available.mid) / GIB
        why = f"is {lacking:.1f} GiB short on each card" if lacking > 0 else "may not fit at the first start"
        wish = f"{settings.max_model_len:,} tokens of the trained context"
        notes.append(f"the {wish} do not fit: a request of that length {why}")
    return FitAnswer(
        devices, shown_memory(Need(0, 0, 0), None), "does_not_fit" if crowded or not memory.fits else verdict,
        longest.max_model_len_low or longest.max_model_len or None, needed, tuple(notes), cards.max_model_len,
    )  # fmt: skip


def _vllm_shown(held: DeviceBytes, room: Room, memory: VllmMemory) -> MemoryShown:
    """What one request needs, within vLLM's share of the card: the rest of the share is cache for more requests."""
    need = Need(held.weights_bytes, memory.needed_bytes, held.compute_bytes)
    usable = memory.available.mid + held.weights_bytes + held.compute_bytes
    beyond = max(0, room.usable_bytes - usable)
    margin = memory.available.mid - memory.available.low
    return shown_memory(need, room, beyond, margin=margin)


def transformers_answer(
    shape: HfShape, parts: Sequence[Part], settings: TransformersSettings, rooms: Sequence[Room], host: Room | None
) -> FitAnswer:
    """On these cards and, where they are too small, on the host; an unknown host is assumed to be large."""
    free = [room.usable_bytes for room in rooms]
    host_free = LARGE_HOST if host is None else host.usable_bytes
    memory = transformers_memory(shape, parts, settings, free, host_free)
    spilled = bool(rooms) and memory.host.weights_bytes + memory.disk_bytes > 0
    fits = memory.fits and not spilled
    longest = longest_transformers_context(shape, parts, settings, free, host_free) if fits else 0
    devices = tuple(shown_held(h, r) for h, r in zip(memory.devices, rooms, strict=True))
    shown_host = shown_held(memory.host, host)
    verdict = "partly" if memory.fits and spilled else verdict_of(devices, shown_host, layers_fit=False)
    needed = sum(shown.total_bytes for shown in (*devices, shown_host))
    most = min(longest, shape.positions or longest) or None
    cards, places = len(memory.devices), memory.places if memory.devices else ()
    away = {"host": sum(place == cards for place in places), "disk": sum(place > cards for place in places)}
    where = " and ".join(f"{count} on the {what}" for what, count in away.items() if count)
    notes = (f"device_map puts {where} of {len(memory.places)} modules: very slow",) if where else ()
    return FitAnswer(devices, shown_host, verdict, most, needed, notes)
