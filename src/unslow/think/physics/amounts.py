"""What a step asks of one memory: bytes, products and layers, for one token or for several at once."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unslow.think.physics.numbers import Number

NOTHING: Mapping[str, Number] = MappingProxyType({})


class Amounts(NamedTuple):
    """What a step reads and computes where it lies."""

    dense_bytes: Number = 0.0
    dense_weights: Number = 0.0
    expert_bytes: Number = 0.0
    """Of the experts that are met."""
    expert_weights: Number = 0.0
    kinds: Mapping[str, Number] = NOTHING
    """The weights that one token meets, by the kind of their type."""
    cache_bytes: Number = 0.0
    """Keys and values that are looked at."""
    cache_elements: Number = 0.0
    attention_products: Number = 0.0
    """Multiply-adds of attention."""
    met_kinds: Mapping[str, Number] = NOTHING
    """The weights that all conversations meet together, by kind."""
    state_bytes: Number = 0.0
    layers: Number = 0.0
    expert_layers: Number = 0.0
    state_layers: Number = 0.0
    width: Number = 4096.0
    tokens: Number = 1.0
    """Conversations that the step brings forward; weights are counted for one of them."""

    def shared(self, parts: Number) -> Amounts:
        """One of so many equal parts of the weights and the cache; every part walks all layers."""
        return self._replace(
            dense_bytes=self.dense_bytes / parts,
            dense_weights=self.dense_weights / parts,
            expert_bytes=self.expert_bytes / parts,
            expert_weights=self.expert_weights / parts,
            kinds={kind: weights / parts for kind, weights in self.kinds.items()},
            cache_bytes=self.cache_bytes / parts,
            cache_elements=self.cache_elements / parts,
            attention_products=self.attention_products / parts,
            met_kinds={kind: weights / parts for kind, weights in self.met_kinds.items()},
            state_bytes=self.state_bytes / parts,
        )
