"""What goes over links: between GPUs, between the host and a GPU, and a cache that lies in the host's memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

from unslow.think.physics.decode import REFERENCE_WIDTH
from unslow.think.physics.terms import Factor, Factors, Number, Term

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


def tensor_split_terms(gpus: Number, layers: Number, width: Number, split: str, ways: Factors) -> Iterator[Term]:
    """A part of each layer on each GPU: all wait for all, twice a layer, by the ways that they have."""
    others = layers * (gpus - 1)
    yield Term(LINK, layers, (Factor(f"gather/{split}"), *ways))
    yield Term(LINK, others, (Factor(f"gather each/{split}"), *ways))
    yield Term(LINK, others * width / REFERENCE_WIDTH, (Factor(f"gather wide/{split}"), *ways))


def ways_between(*, peers: bool, linked: bool) -> Factors:
    """What makes gathering slower or faster: GPUs that can't talk directly, or that have links of their own."""
    return (Factor("linked"),) if linked else () if peers else (Factor("no peers"),)


def offload_terms(crossings: Number, backend: str) -> Iterator[Term]:
    """Between layers on a GPU and layers on the CPU: each crossing waits for the other side."""
    yield Term(LINK, crossings, (Factor(f"host crossing/{backend}"),))


def copied_cache_s(cache_bytes_per_token: float, depth: float, link_bytes_per_s: float) -> float:
    """Seconds of one step, of a token or a micro-batch, for copies of keys and values in the host's memory to a GPU.

    llama.cpp computes attention where the weights are: what is asked of the cache is copied to the GPU layer by layer,
    for every token again. The copies are not from pinned memory, so a core of the host moves them first, and that is
    slower than the link. Each layer goes to the host and back.
    """
    return cache_bytes_per_token * looked_at_tokens(depth) / min(UNPINNED_BYTES_PER_S, max(1.0, link_bytes_per_s))


def prompt_copies_s(cache_bytes_per_token: float, tokens: float, each: float, link_bytes_per_s: float) -> float:
    """Seconds for each token of a prompt: a micro-batch needs all before it, and its own go back as 32-bit floats."""
    there = copied_cache_s(cache_bytes_per_token, (tokens + each) / 2, link_bytes_per_s) / each
    return there + _F32_OVER_F16 * cache_bytes_per_token / min(UNPINNED_BYTES_PER_S, max(1.0, link_bytes_per_s))


def looked_at_tokens(depth: float) -> float:
    """The tokens whose keys and values are read at this depth: whole blocks."""
    return BLOCK_TOKENS * max(1, math.ceil(depth / BLOCK_TOKENS))
