"""Whether a model fits under llama.cpp, vLLM and Transformers, and what would.

Fewer layers, a shorter context, a smaller quant.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from unslow.catalog.weight_parts import Part
from unslow.facts.model import HfShape
from unslow.facts.values import GIB
from unslow.think.fit.report import KvShown, MemoryShown, RuleShown, Verdict
from unslow.think.hardware import Room
from unslow.think.memory.footprint import Held
from unslow.think.memory.llama_cpp.cache import LayerCache, layer_caches
from unslow.think.memory.llama_cpp.hyperparameters import Hyper
from unslow.think.memory.llama_cpp.need import Need
from unslow.think.memory.llama_cpp.settings import CELLS_PADDING, Settings
from unslow.think.memory.transformers import TransformersSettings, longest_transformers_context, transformers_memory
from unslow.think.memory.vllm import VllmMemory, VllmSettings, vllm_memory
from unslow.think.physics.placement import largest_fitting
from unslow.think.setup import Setup

_MUCH = 4 * GIB  # a host has so much; a model that asks more of one whose memory nobody knows can't be judged


def shown_memory(need: Need, room: Room | None, context: int = 0, used_later: int = 0, margin: int = 0) -> MemoryShown:
    """The need in a room, which is the host's where nobody knows its size.

    `context` lies there before any buffer, `used_later` is taken by the first prompt.
    """
    total = need.total
    sizes = {"weights_bytes": need.weights, "kv_bytes": need.cache, "compute_bytes": need.compute}
    if room is None:
        return MemoryShown(name="host", **sizes, total_bytes=total, free_bytes=None, fits=None)
    left = room.usable_bytes - context - total
    return MemoryShown(
        name=room.name, **sizes, total_bytes=total, free_bytes=max(0, left), fits=left >= used_later,
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


_SHARE = 1.25
_WHOLE_BITS = {"F32": 32, "F16": 16, "BF16": 16, "FP16": 16, "FP32": 32, "MXFP4": 4, "NVFP4": 4, "AWQ": 4, "GPTQ": 4}


def rule_of_thumb(parameters: int, quant: str, room_bytes: int | None, needs_bytes: int) -> RuleShown | None:
    """What it says of a quant by the digit in its name; None where the name has none."""
    digit = re.search(r"(?:Q|FP|INT)(\d)", quant.upper())
    bits = next((b for name, b in _WHOLE_BITS.items() if quant.upper().startswith(name)), int(digit[1]) if digit else 0)
    if not bits or not parameters:
        return None
    says = int(parameters * bits / 8 * _SHARE)
    text = f"{parameters / 1e9:.1f}B parameters x {bits} bits x {_SHARE}"
    fits = None if room_bytes is None else says <= room_bytes
    return RuleShown(text=text, says_bytes=says, says_fits=fits, needs_bytes=needs_bytes)


_MASK_BYTES = 8
"""Of a mask and of its copy, for each token of context and each that is computed at once: more than any backend has."""
_STEP = 1024


def longest_context(setup: Setup) -> int | None:
    """About the longest that fits with everything on the GPUs, on the safe side; None where what is asked does not."""
    left, settings = setup.left(), setup.settings
    if left < 0:
        return None
    trained = setup.blueprint.count("context_length", settings.context)
    each = _cache_bytes(setup, 2 * settings.context) - _cache_bytes(setup, settings.context)
    per_token = each / settings.context + _MASK_BYTES * settings.micro_batch
    tokens = settings.context + int(left / per_token)
    return min(trained, tokens // _STEP * _STEP) if tokens >= _STEP else tokens


def _cache_bytes(setup: Setup, context: int) -> int:
    caches = layer_caches(Hyper(setup.blueprint), setup.settings._replace(context=context))
    return sum(cache.bytes for cache in caches)


def shown_needs(setup: Setup) -> tuple[tuple[MemoryShown, ...], MemoryShown]:
    """The needs beside the memory there is."""
    *devices, host = setup.memory().needs
    later, margin = setup.workspace_bytes, setup.least_free_bytes
    shown = tuple(
        shown_memory(need, room, room.context_bytes, later if need.total else 0, margin)
        for need, room in zip(devices, setup.hardware.rooms, strict=True)
    )
    return shown, shown_memory(host, setup.host_room(devices))


def most_layers(setup: Setup) -> int | None:
    """The most layers that the GPUs hold at this context, the output counted as one; None where the rest has no room.

    The GPUs limit the number from above and the host from below, so what fits need not begin at 0.
    """
    if not setup.hardware.rooms:
        return 0
    everything = setup.blueprint.count("block_count") + 1
    return _most_on_gpus(setup, everything, lambda layers: setup.settings._replace(gpu_layers=layers))


def most_context(setup: Setup) -> int | None:
    """The longest context with this placement, up to what the model was trained for."""
    settings = setup.settings
    slots = 1 if settings.unified else settings.slots
    trained = setup.blueprint.count("context_length", settings.context) * slots

    def left(steps: int) -> float:
        return setup.left_or_lacking(settings._replace(context=steps * CELLS_PADDING))

    steps = largest_fitting(slots, max(slots, -(-trained // CELLS_PADDING)), left)
    return None if steps is None else min(steps * CELLS_PADDING, trained)


def _most_on_gpus(setup: Setup, most: int, placed: Callable[[int], Settings]) -> int | None:
    """The largest number that the GPUs hold; None where the host, which then has the least to hold, lacks room.

    Compute buffers are as large as a few layers: the number is looked for a little below what would fit without them.
    """
    gpus_alone = setup.on_gpus_alone()
    top = largest_fitting(0, most, lambda number: gpus_alone.left_without_compute(placed(number)))
    if top is None or setup.left_without_compute(placed(top)) < 0:
        return None
    low, step = top, 1
    while low > 0 and gpus_alone.left(placed(low)) < 0:
        top, low, step = low - 1, max(0, low - step), 2 * step
    found = largest_fitting(low, top, lambda number: gpus_alone.left(placed(number)))
    return found if found is not None and setup.left(placed(found)) >= 0 else None


def fitting_settings(setup: Setup, *, experts_may_move: bool = True) -> Settings | None:
    """The settings with as much on the GPUs as fits, the rest on the host; None where both together lack room.

    Experts stay on the host before whole layers do. Only where nothing leaves the margin is less left free.
    """
    if not setup.may_fit:
        return None
    for margin in dict.fromkeys((setup.margin_bytes, 0)):
        asked = setup._replace(margin_bytes=margin)
        ways = _placements(asked, experts_may_move=experts_may_move)
        found = next((s for s in ways if asked.left_or_lacking(s) >= 0), None)
        if found:
            return found
    return None


def _placements(setup: Setup, *, experts_may_move: bool) -> Iterator[Settings]:
    """All on the GPUs; then some experts on the host, or all of them and some layers; then whole layers."""
    asked, hyper = setup.settings, Hyper(setup.blueprint)
    yield asked
    if not setup.hardware.rooms:
        return
    if experts_may_move and hyper.experts:

        def with_experts(layers: int) -> Settings:
            return asked._replace(gpu_layers=-1, experts_on_cpu=hyper.layers - layers)

        if (most := _most_on_gpus(setup.on_gpus_alone(), hyper.layers, with_experts)) is not None:
            yield with_experts(most)
            return  # whole layers are coarser: they leave the host no less
        bare = asked._replace(experts_on_cpu=hyper.layers)
        if layers := most_layers(setup._replace(settings=bare)):
            yield bare._replace(gpu_layers=layers)
    if (layers := most_layers(setup)) is not None:
        yield asked._replace(gpu_layers=layers)


def shown_cache(setup: Setup) -> tuple[KvShown, ...]:
    """The cache by kinds of layers."""
    hyper = Hyper(setup.blueprint)

    def kind(cache: LayerCache) -> tuple[str, int]:
        if not cache.cells:
            return "state", 0
        if hyper.windowed[cache.layer]:
            return f"window of {hyper.window:,}", cache.cells
        return "latent" if hyper.is_latent else "all tokens", cache.cells

    caches = sorted(layer_caches(hyper, setup.settings), key=kind)
    groups = ((k, list(members)) for k, members in groupby(caches, kind))
    return tuple(
        KvShown(what=what, layers=len(members), cells=cells, bytes=sum(c.bytes for c in members))
        for (what, cells), members in groups
    )


SHORTEST_USEFUL = 2048  # tokens: a chat of a few turns. A server for less than that is of no use to anybody


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
    notes = [f"vLLM takes {cards.utilization:.0%} of each card (--gpu-memory-utilization) and fills it with cache"]
    if memory.kv_tokens:
        low, high = memory.kv_tokens_range
        served = f"{memory.max_concurrency:.1f} requests of {cards.max_model_len:,} tokens at once"
        held = f"the cache of all cards holds about {memory.kv_tokens:,} tokens ({low:,} to {high:,})"
        notes.insert(0, f"{held}: {served}")
    if crowded:
        notes.append("vLLM does not start: other processes hold memory of the share that it asks for")
    if memory.available.mid <= 0:
        notes.append("the weights and the peak of a first run alone are more than vLLM's share of a card")
    if memory.fits and cards.max_model_len != settings.max_model_len:
        lacking = (wished.needed_bytes - wished.available.mid) / GIB
        why = f"lacks {lacking:.1f} GiB on each card" if lacking > 0 else "may not find room at the first start"
        wish = f"{settings.max_model_len:,} tokens that the model was trained for"
        notes.append(f"the {wish} do not fit: one such request {why}")
    return FitAnswer(
        devices, shown_memory(Need(0, 0, 0), None), "does_not_fit" if crowded or not memory.fits else verdict,
        longest.max_model_len_low or longest.max_model_len or None, needed, tuple(notes), cards.max_model_len,
    )  # fmt: skip


def _vllm_shown(held: Held, room: Room, memory: VllmMemory) -> MemoryShown:
    """What one request needs, within vLLM's share of the card: the rest of the share is cache for more requests."""
    need = Need(held.weights_bytes, memory.needed_bytes, held.compute_bytes)
    usable = memory.available.mid + held.weights_bytes + held.compute_bytes
    beyond = max(0, room.usable_bytes - usable)
    margin = memory.available.mid - memory.available.low
    return shown_memory(need, room, beyond, margin=margin)


LARGE_HOST = 2**43  # of a host that nobody knows


def transformers_answer(
    shape: HfShape, parts: Sequence[Part], settings: TransformersSettings, rooms: Sequence[Room], host: Room | None
) -> FitAnswer:
    """On these cards and, where they are too small, on the host; a host that nobody knows is taken to be large."""
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


def shown_held(held: Held, room: Room | None) -> MemoryShown:
    """What a runtime holds in a room, with what lies beside tensors as there before any buffer."""
    need = Need(held.weights_bytes, held.kv_bytes, held.compute_bytes)
    return shown_memory(need, room, held.other_bytes)
