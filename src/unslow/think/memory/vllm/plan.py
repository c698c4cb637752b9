"""vLLM's whole sum: what each rank holds, the cache that the budget leaves, and the requests that it serves."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.catalog.weight_parts import Part
from unslow.facts.hf_shape import HfShape
from unslow.think.memory.held import Held, Spread, exactly
from unslow.think.memory.vllm import cache, profile
from unslow.think.memory.vllm.settings import Settings, stage_layers
from unslow.think.memory.vllm.weights import stage_weight_bytes


class VllmMemory(NamedTuple):
    """The answer; what follows from the profile is its most likely figure, with a range beside."""

    devices: tuple[Held, ...]
    """For each rank, stage by stage."""
    available: Spread
    """What the profile leaves for the cache on the tightest rank; below 0 where the weights alone are too large."""
    needed_bytes: int
    """What one request of `max_model_len` takes there."""
    kv_blocks: int
    kv_tokens: int
    """As vLLM reports them."""
    kv_tokens_range: tuple[int, int]
    """At the least and at the most available memory."""
    max_concurrency: float
    """Requests of `max_model_len` at once."""
    max_model_len: int
    """The longest request that the cache serves, up to the one asked for; 0 where none."""
    max_model_len_low: int = 0
    """The same at the least available memory: what surely starts."""

    @property
    def fits(self) -> bool:
        """Whether vLLM starts: it can serve one request of the length asked for."""
        return self.max_concurrency >= 1


class _Stage(NamedTuple):
    """One pipeline stage, as one of its ranks sees it."""

    weights: int
    block_bytes: int
    peak: Spread
    available: Spread

    def blocks(self, available: int) -> int:
        """The blocks that so much memory makes."""
        return max(0, available // self.block_bytes) if self.block_bytes else 0


def vllm_memory(shape: HfShape, parts: Sequence[Part], settings: Settings, total_bytes: int) -> VllmMemory:
    """The memory of vLLM on equal cards of so many bytes each, as the driver tells programs."""
    settings = settings.on_card(total_bytes)
    groups = cache.cache_groups(shape, settings)
    stages = _stages(shape, parts, settings, total_bytes)
    tightest = min(stages, key=lambda stage: stage.blocks(stage.available.mid))
    least, usual, most = (cache.capacity(shape, settings, groups, tightest.blocks(room)) for room in tightest.available)
    devices = (_held(shape, settings, stage, usual.blocks) for stage in stages)
    return VllmMemory(
        devices=tuple(device for device in devices for _ in range(settings.tensor_parallel)),
        available=tightest.available,
        needed_bytes=cache.request_blocks(shape, settings, groups, settings.max_model_len) * tightest.block_bytes,
        kv_blocks=usual.blocks,
        kv_tokens=usual.tokens,
        kv_tokens_range=(least.tokens, most.tokens),
        max_concurrency=usual.concurrency,
        max_model_len=cache.longest_request(shape, settings, groups, usual.blocks),
        max_model_len_low=cache.longest_request(shape, settings, groups, least.blocks),
    )


def cache_of(shape: HfShape, settings: Settings, available_bytes: int) -> cache.Capacity:
    """The blocks and tokens of a cache whose memory is known, as a log's `Available KV cache memory` tells it."""
    settings = settings.on_card(0)
    groups = cache.cache_groups(shape, settings)
    size = max(cache.block_bytes(groups, layers) for layers in stage_layers(shape.layers, settings.pipeline_parallel))
    return cache.capacity(shape, settings, groups, available_bytes // size if size else 0)


def longest_of(shape: HfShape, settings: Settings, available_bytes: int) -> tuple[int, int]:
    """What the longest request asked for takes, and the longest one that a cache of known memory serves."""
    settings = settings.on_card(0)
    groups = cache.cache_groups(shape, settings)
    size = max(cache.block_bytes(groups, layers) for layers in stage_layers(shape.layers, settings.pipeline_parallel))
    needed = cache.request_blocks(shape, settings, groups, settings.max_model_len) * size
    return needed, cache.longest_request(shape, settings, groups, available_bytes // size if size else 0)


def _stages(shape: HfShape, parts: Sequence[Part], settings: Settings, total_bytes: int) -> list[_Stage]:
    """Weights, pages and room of each stage."""
    groups = cache.cache_groups(shape, settings)
    weights = stage_weight_bytes(shape, parts, settings)
    last = settings.pipeline_parallel - 1
    stages = []
    for number, layers in enumerate(stage_layers(shape.layers, settings.pipeline_parallel)):
        peak = profile.activation_peak(shape, settings, first=not number, last=number == last)
        room = _room(shape, settings, total_bytes, weights[number], peak)
        stages.append(_Stage(weights[number], cache.block_bytes(groups, layers), peak, room))
    return stages


def _room(shape: HfShape, settings: Settings, total_bytes: int, weights: int, peak: Spread) -> Spread:
    """What the budget leaves for the cache on one rank."""
    if settings.kv_cache_memory_bytes:
        return exactly(settings.kv_cache_memory_bytes)
    budget = round(total_bytes * settings.utilization) - weights
    taken = peak.plus(profile.beside_torch(settings))
    if settings.release.graphs_in_budget:
        taken = taken.plus(profile.graphs(shape, settings))
    return Spread(budget - taken.high, budget - taken.mid, budget - taken.low)


def _held(shape: HfShape, settings: Settings, stage: _Stage, blocks: int) -> Held:
    """Everything on one rank of a stage."""
    other = profile.context(settings).plus(profile.beside_torch(settings)).plus(profile.graphs(shape, settings))
    return Held(stage.weights, blocks * stage.block_bytes, stage.peak, other)
