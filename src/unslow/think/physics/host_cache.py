"""Keys and values in the host's memory of layers that a GPU computes.

llama.cpp computes attention where the weights are: what is asked of the cache is copied to the GPU layer by layer, for
every token again. The copies are not from pinned memory, so a core of the host moves them first, and that is slower
than the link. Each layer goes to the host and back.
"""

import math

BLOCK_TOKENS = 256
"""The cache is looked at in whole blocks (`n_pad` in llama.cpp's llama_kv_cache)."""
UNPINNED_BYTES_PER_S = 6.8e9
"""Of such copies: each 1000 tokens of depth, 131 MB, added 19.2 ms on an H200 behind PCIe 5.0 x16, which copies 50 GB/s
of pinned memory, in a straight line from 500 to 32,000 tokens."""
CROSSINGS_PER_LAYER = 2
_F32_OVER_F16 = 2


def looked_at_tokens(depth: float) -> float:
    """The tokens whose keys and values are read at this depth: whole blocks."""
    return BLOCK_TOKENS * max(1, math.ceil(depth / BLOCK_TOKENS))


def copied_cache_s(cache_bytes_per_token: float, depth: float, link_bytes_per_s: float) -> float:
    """Seconds for the copies of one step, whether it computes one token or a micro-batch of them."""
    return cache_bytes_per_token * looked_at_tokens(depth) / min(UNPINNED_BYTES_PER_S, max(1.0, link_bytes_per_s))


def prompt_copies_s(cache_bytes_per_token: float, tokens: float, each: float, link_bytes_per_s: float) -> float:
    """Seconds for each token of a prompt: a micro-batch needs all before it, and its own go back as 32-bit floats."""
    there = copied_cache_s(cache_bytes_per_token, (tokens + each) / 2, link_bytes_per_s) / each
    return there + _F32_OVER_F16 * cache_bytes_per_token / min(UNPINNED_BYTES_PER_S, max(1.0, link_bytes_per_s))
