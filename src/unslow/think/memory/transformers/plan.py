"""Transformers' whole sum: what each card and the host hold, and the longest context that fits."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.catalog.runtimes_memory import overheads
from unslow.catalog.weight_parts import Part
from unslow.facts.hf_shape import HfShape
from unslow.think.memory.held import NOTHING, Held, Spread
from unslow.think.memory.transformers.cache import cache_bytes, prompt_cache_bytes
from unslow.think.memory.transformers.device_map import HOST_SHARE, Module, limits, modules_of, placed
from unslow.think.memory.transformers.peak import prompt_peak, token_peak
from unslow.think.memory.transformers.settings import Settings

PEAK_LOW, PEAK_HIGH = 0.97, 1.05
"""How far measured peaks lie from the sum, of kinds of models that were measured."""
UNMEASURED_HIGH = 1.3
"""Of latents and recurrent layers, whose kernels were only read."""
LONGEST = 2**24


class TransformersMemory(NamedTuple):
    """The answer."""

    devices: tuple[Held, ...]
    host: Held
    disk_bytes: int
    places: tuple[int, ...]
    """For each module (table, layers, norm, output) its card; then the host; then the disk."""
    fits: bool
    """Whether every card has room for what it is to hold."""


def transformers_memory(
    shape: HfShape, parts: Sequence[Part], settings: Settings, free_bytes: Sequence[int], host_free_bytes: int = 0
) -> TransformersMemory:
    """The memory of Transformers on cards with so much free memory, and a host; without a card, on the host."""
    modules = modules_of(shape, parts)
    places = _places(modules, settings, free_bytes, host_free_bytes)
    by_device = [[m for m, p in zip(modules, places, strict=True) if p == n] for n in range(len(free_bytes) + 2)]
    *cards, on_host, on_disk = by_device
    # Offloaded modules visit the first card, and their cache stays there.
    guests = [on_host + on_disk if not number else [] for number in range(len(cards))]
    devices = tuple(_card(shape, settings, own, away) for own, away in zip(cards, guests, strict=True))
    host = Held(_size(on_host)) if cards else _held(shape, settings, on_host, [], NOTHING)
    room = all(device.total.mid <= free for device, free in zip(devices, free_bytes, strict=True))
    fits = room if cards else host.total.mid <= host_free_bytes
    return TransformersMemory(devices, host, _size(on_disk), tuple(places), fits)


def longest_context(
    shape: HfShape, parts: Sequence[Part], settings: Settings, free_bytes: Sequence[int], host_free_bytes: int = 0
) -> int:
    """The most tokens, prompt and answer together, that fit with this batch; 0 where not even one does."""
    low, high = 0, LONGEST
    while low < high:
        middle = (low + high + 1) // 2
        asked = settings._replace(prompt_tokens=max(1, middle - settings.new_tokens))
        if transformers_memory(shape, parts, asked, free_bytes, host_free_bytes).fits:
            low = middle
        else:
            high = middle - 1
    return low


def _places(modules: Sequence[Module], settings: Settings, free: Sequence[int], host_free: int) -> list[int]:
    """The device of each module."""
    if settings.device_map == "single" or not free:
        return [0] * len(modules)
    return placed(modules, limits(settings.device_map, modules, free), int(host_free * HOST_SHARE))


def _card(shape: HfShape, settings: Settings, own: Sequence[Module], guests: Sequence[Module]) -> Held:
    """What one card holds; nothing where no module runs on it."""
    if not own and not guests:
        return Held()
    return _held(shape, settings, own, guests, Spread(*overheads().context).plus(Spread(*overheads().workspace)))


def _held(shape: HfShape, settings: Settings, own: Sequence[Module], guests: Sequence[Module], other: Spread) -> Held:
    """Weights, cache and peaks of the modules that run on one device."""
    layers = [module.layer for module in (*own, *guests) if 0 <= module.layer < shape.layers]
    kept = cache_bytes(shape, settings, layers)
    prompt = prompt_cache_bytes(shape, settings, layers) + prompt_peak(shape, settings)
    visiting = max((module.bytes for module in guests), default=0)
    peak = max(prompt, kept + token_peak(shape, settings)) - kept + visiting
    high = UNMEASURED_HIGH if shape.kv_rank or shape.state else PEAK_HIGH
    return Held(_size(own), kept, Spread(round(peak * PEAK_LOW), peak, round(peak * high)), other)


def _size(modules: Sequence[Module]) -> int:
    """The weights of modules."""
    return sum(module.bytes for module in modules)
