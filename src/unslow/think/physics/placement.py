"""Where weights, keys and values lie, what they take, and the largest number that still fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from unslow.catalog.quants import quants
from unslow.facts.values import GIB, MIB
from unslow.think.physics.decode import REFERENCE_WIDTH
from unslow.think.physics.terms import Factor, Number, Term

FIT_MARGIN_BYTES = GIB  # llama.cpp's own fit leaves this much free on each device by default
COMPUTE_BUFFER_BYTES = 300 * MIB  # a usual compute buffer, where the runtime did not say
F16_BYTES = 2.0


class Shape(NamedTuple):
    """A model in the numbers that decide its speed."""

    layers: int
    layer_bytes: float
    output_bytes: float
    kv_bytes_per_token: float
    width: float
    vocabulary: float
    expert_share: float = 0.0  # The part of a layer's bytes that is experts


class Placement(NamedTuple):
    """How many repeating layers a GPU holds (a fraction where only experts moved), and whether it holds the output."""

    gpu_layers: float
    output_on_gpu: bool
    expert_layers: float | None = None
    """Layers whose experts it holds, where those are fewer than the layers of which it holds the rest."""
    dense_layers: float | None = None
    """Layers of which it holds everything but the experts; as many as whole ones where nothing is said."""
    cache_on_gpu: bool = True  # Whether the keys and values of a layer lie beside its weights

    @property
    def attending(self) -> float:
        """Layers that the GPU computes, whoever has their experts."""
        return self.gpu_layers if self.dense_layers is None else self.dense_layers

    @property
    def with_experts(self) -> float:
        """Layers whose experts the GPU computes."""
        return self.gpu_layers if self.expert_layers is None else self.expert_layers


def without_experts(shape: Shape, layers: float, missing_bytes: float, *, output_on_gpu: bool) -> Placement:
    """So many layers on the GPU, of which so many bytes are not there: experts leave first, then whole layers."""
    experts = layers * shape.layer_bytes * shape.expert_share
    away = min(missing_bytes, experts) / experts if experts else 0.0
    rest = (missing_bytes - away * experts) / (shape.layer_bytes * (1 - shape.expert_share) or 1.0)
    dense, held = min(layers, max(0.0, layers - rest)), layers * (1 - away)
    by_bytes = dense * (1 - shape.expert_share) + held * shape.expert_share
    return Placement(by_bytes, output_on_gpu, min(held, dense), dense)


def fit_layers(shape: Shape, vram_bytes: float, context: float, compute_bytes: float, margin_bytes: float) -> Placement:
    """As many layers as fit, the output first, as llama.cpp does it."""
    room = vram_bytes - margin_bytes - compute_bytes - shape.output_bytes
    if room < 0:
        return Placement(0, output_on_gpu=False)
    layer = shape.layer_bytes + shape.kv_bytes_per_token * context / max(1, shape.layers)
    return Placement(min(shape.layers, room // layer if layer else shape.layers), output_on_gpu=True)


def element_bytes(kind: str) -> float:
    """What one key or value takes when stored as a ggml type; an unknown type counts as f16, the default."""
    quant = quants().get(kind.upper())
    return quant.block_bytes / quant.block_elements if quant else F16_BYTES


def kv_bytes_per_token(
    layers: int, kv_heads: int, key_length: int, value_length: int, types: tuple[str, str] = ("f16", "f16")
) -> float:
    """What one token adds to the cache of a model in which every layer attends to everything."""
    key, value = (element_bytes(kind) for kind in types)
    return layers * kv_heads * (key_length * key + value_length * value)


def largest_fitting(low: int, high: int, left: Callable[[int], float]) -> int | None:
    """The largest number from low to high at which nothing is lacking (`left` is not negative); None where none is.

    More never leaves more. Each guess is where a straight line through both ends crosses zero; where the last guess
    took less than half of the range away, the middle is tried, so that a crooked line costs little.
    """
    at_low = left(low)
    if high < low or at_low < 0:
        return None
    at_high = left(high)
    if at_high >= 0:
        return high
    halve = False
    while high - low > 1:
        width = high - low
        guess = low + width // 2 if halve else low + int(width * at_low / (at_low - at_high))
        guess = min(max(guess, low + 1), high - 1)
        at_guess = left(guess)
        if at_guess >= 0:
            low, at_low = guess, at_guess
        else:
            high, at_high = guess, at_guess
        halve = (high - low) * 2 > width
    return low


LINK = "link"
SPLIT_BY_LAYER, SPLIT_BY_ROW, SPLIT_BY_TENSOR = "layer", "row", "tensor"
"""How a model is split: whole layers; rows of each matrix, gathered by llama.cpp; or by a runtime made for it."""
LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""By generation: transfers per second and lane after the line code (8b/10b, 128b/130b, FLITs), PCI-SIG."""
COPIED_SHARE = 0.8
"""What a large copy reaches: about 12.5 of 15.8 GB/s on 3.0 x16 and 25 of 31.5 on 4.0 x16 in CUDA's bandwidthTest."""
UNPINNED_BYTES_PER_S = 6.8e9
"""Of copies that are not from pinned memory: each 1000 tokens of depth, 131 MB, added 19.2 ms on an H200 behind PCIe
5.0 x16, which copies 50 GB/s of pinned memory, in a straight line from 500 to 32,000 tokens."""
BLOCK_TOKENS = 256  # the cache is looked at in whole blocks (`n_pad` in llama.cpp's llama_kv_cache)
CROSSINGS_PER_LAYER = 2
_F32_OVER_F16 = 2


def link_bytes_per_s(generation: float, lanes: float) -> float:
    """What large copies reach; a generation that is not known counts as the newest that is."""
    lane = LANE_BYTES_PER_S.get(int(generation), LANE_BYTES_PER_S[max(LANE_BYTES_PER_S)])
    return max(1.0, COPIED_SHARE * lane * max(1.0, lanes))


def layer_split_terms(gpus: Number, backend: str, weights_s: Number) -> Iterator[Term]:
    """Whole layers on each GPU, one after the other: a crossing between two, and a part that runs less smoothly."""
    yield Term(LINK, gpus - 1, (Factor(f"crossing/{backend}"),))
    yield Term(LINK, (gpus - 1) / gpus * weights_s, (Factor("crossing waste"),))


def tensor_split_terms(
    gpus: Number, layers: Number, width: Number, split: str, *, peers: bool, linked: bool
) -> Iterator[Term]:
    """A part of each layer on each GPU: all wait for all, twice a layer."""
    others = layers * (gpus - 1)
    # GPUs that can't talk directly gather more slowly, those that have links of their own faster
    ways = (Factor("linked"),) if linked else () if peers else (Factor("no peers"),)
    yield Term(LINK, layers, (Factor(f"gather/{split}"), *ways))
    yield Term(LINK, others, (Factor(f"gather each/{split}"), *ways))
    yield Term(LINK, others * width / REFERENCE_WIDTH, (Factor(f"gather wide/{split}"), *ways))


def offload_terms(crossings: Number, backend: str) -> Iterator[Term]:
    """Between layers on a GPU and layers on the CPU: each crossing waits for the other side."""
    yield Term(LINK, crossings, (Factor(f"host crossing/{backend}"),))


def copied_cache_s(cache_bytes_per_token: float, depth: float, link_bytes_per_s: float) -> float:
    """Seconds of one step, of a token or a micro-batch, for copies of keys and values in the host's memory to a GPU."""
    # llama.cpp computes attention where the weights are: what is asked of the cache is copied to the GPU layer by
    # layer, for every token again. The copies are not from pinned memory, so a core of the host moves them first, and
    # that is slower than the link. Each layer goes to the host and back. Keys and values are read in whole blocks.
    tokens = BLOCK_TOKENS * max(1, math.ceil(depth / BLOCK_TOKENS))
    return cache_bytes_per_token * tokens / min(UNPINNED_BYTES_PER_S, max(1.0, link_bytes_per_s))


def prompt_copies_s(cache_bytes_per_token: float, tokens: float, each: float, link_bytes_per_s: float) -> float:
    """Seconds for each token of a prompt: a micro-batch needs all before it, and its own go back as 32-bit floats."""
    there = copied_cache_s(cache_bytes_per_token, (tokens + each) / 2, link_bytes_per_s) / each
    return there + _F32_OVER_F16 * cache_bytes_per_token / min(UNPINNED_BYTES_PER_S, max(1.0, link_bytes_per_s))
