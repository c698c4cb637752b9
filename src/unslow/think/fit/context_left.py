"""The longest context that memory leaves room for, without laying out a graph for each length."""

from unslow.think.memory.llama_cpp.cache import layer_caches
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.setup import Setup

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
