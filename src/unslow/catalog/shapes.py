"""Shapes of models that can be made up to be measured: published ones, and small ones for tests."""

from functools import cache

import msgspec

from unslow.catalog import entries


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that decides a model's speed, apart from the mix of types."""

    source: str
    architecture: str
    quant: str
    """The mix to use where none is asked for."""
    layers: int
    width: int
    feed_forward: int
    """Of one expert, where there are experts."""
    heads: int
    kv_heads: int
    head_length: int
    vocabulary: int
    context_trained: int
    rope_base: float = 10000.0
    tied: bool = False
    """Whether the token table is the output matrix too."""
    head_norms: bool = False
    """Whether queries and keys are normalised, as in Qwen3."""
    experts: int = 0
    experts_used: int = 0


@cache
def shapes() -> dict[str, Shape]:
    """Every shape by its file name."""
    return dict(entries("shapes", Shape))
