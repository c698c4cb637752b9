"""What a format of safetensors and a type of cache cost in answers, as far as somebody published it."""

from unslow.think.physics.kinds import HALF
from unslow.think.plan.quality import Cost, cost_of, is_equal_quality
from unslow.think.plan.report import QualityShown

FULL = "full precision: nothing is lost"
_PLAIN = frozenset({"auto", "bfloat16", "float16", "dynamic", "static", "offloaded"})
_CACHES = {"quantized": "int4"}
"""Caches of Transformers by the type that they keep."""


def hf_cost(quant: str, types: str, cache: str, parameters: int, architecture: str) -> Cost:
    """The cost of weights and cache together."""
    kept = "f16" if cache in _PLAIN else _CACHES.get(cache, cache)
    return cost_of("F16" if types == HALF else quant, kept, kept, parameters, architecture)


def hf_quality(quant: str, types: str, cache: str, parameters: int, architecture: str) -> QualityShown:
    """The same as the report shows it."""
    cost = hf_cost(quant, types, cache, parameters, architecture)
    return QualityShown(
        perplexity_increase=cost.perplexity_increase,
        kl_divergence=cost.kl_divergence,
        words=cost.words or FULL,
        sources=cost.sources,
    )


def is_as_good(one: Cost, other: Cost) -> bool:
    """Whether nobody could tell them apart, or the first is better."""
    known = one.perplexity_increase is not None and other.perplexity_increase is not None
    better = known and (one.perplexity_increase or 0.0) <= (other.perplexity_increase or 0.0)
    return better or is_equal_quality(one, other)
