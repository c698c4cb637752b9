"""The longest context that memory leaves room for, without laying out a graph for each length."""

from unslow.think.fit.llama_cpp import Question
from unslow.think.memory.llama_cpp.cache import layer_caches
from unslow.think.memory.llama_cpp.hyper import Hyper

_MASK_BYTES = 8
"""Of a mask and of its copy, for each token of context and each that is computed at once: more than any backend has."""
_STEP = 1024


def longest_context(question: Question) -> int | None:
    """About the longest that fits with everything on the GPUs, on the safe side; None where what is asked does not."""
    left, settings = question.left(), question.settings
    if left < 0:
        return None
    trained = question.blueprint.count("context_length", settings.context)
    each = _cache_bytes(question, 2 * settings.context) - _cache_bytes(question, settings.context)
    per_token = each / settings.context + _MASK_BYTES * settings.micro_batch
    tokens = settings.context + int(left / per_token)
    return min(trained, tokens // _STEP * _STEP) if tokens >= _STEP else tokens


def _cache_bytes(question: Question, context: int) -> int:
    caches = layer_caches(Hyper(question.blueprint), question.settings._replace(context=context))
    return sum(cache.bytes for cache in caches)
