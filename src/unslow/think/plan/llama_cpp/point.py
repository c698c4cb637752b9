"""A point of the space that a plan is chosen from: a quant, a type of cache and a context, at its best."""

from typing import NamedTuple

from unslow.think.plan.llama_cpp.found import Found
from unslow.think.plan.llama_cpp.variants import Variant
from unslow.think.plan.quality import Cost

DEFAULT_CACHE, DEFAULT_MICRO_BATCH = "F16", 512


class Point(NamedTuple):
    """One choice at its best, with what it costs in quality."""

    variant: Variant
    found: Found
    context: int
    """Of one conversation."""
    cost: Cost
    proved: bool = False
    """Whether no other placing or micro-batch of this choice can be quicker."""

    @property
    def request_s(self) -> float:
        """What the user's work takes."""
        return self.found.price.request_s

    @property
    def increase(self) -> float:
        """Of perplexity; what nobody published counts as much, so that it is never taken for nothing."""
        known = self.cost.perplexity_increase
        return 1.0 if known is None else known
