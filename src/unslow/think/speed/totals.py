"""A model, or the part of it that lies in one memory, as sums; numbers or arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unslow.think.physics.amounts import Amounts
from unslow.think.physics.kv_cache import F16_BYTES
from unslow.think.physics.numbers import larger, smaller
from unslow.think.speed.load import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unslow.think.physics.numbers import Number
    from unslow.think.speed.load import LayerLoad, ModelLoad


_NO_SUMS = frozenset({"experts", "experts_used", "width", "window", "kinds", "expert_kinds"})
"""Of a model as a whole, or by kind."""


class Totals(NamedTuple):
    """What lies in one memory; expert bytes and weights are those of all experts."""

    dense_bytes: Number = 0.0
    dense_weights: Number = 0.0
    output_weights: Number = 0.0
    """Among the dense ones: a prompt needs them for its last token only."""
    expert_bytes: Number = 0.0
    expert_weights: Number = 0.0
    kinds: Mapping[str, Number] = NOTHING
    """The dense weights by the kind of their type, and those of all experts."""
    expert_kinds: Mapping[str, Number] = NOTHING
    experts: Number = 1.0
    experts_used: Number = 1.0
    layers: Number = 0.0
    expert_layers: Number = 0.0
    state_layers: Number = 0.0
    state_bytes: Number = 0.0
    width: Number = 4096.0
    full_cache: Number = 0.0
    """Elements of keys and values for each token of depth."""
    windowed_cache: Number = 0.0
    window: Number = 0.0
    full_scores: Number = 0.0
    """Multiply-adds of attention for each token of depth."""
    windowed_scores: Number = 0.0

    def scaled(self, factor: Number) -> Totals:
        """The same model with all weights as many times larger, as another mix of types makes them."""
        return self._replace(dense_bytes=self.dense_bytes * factor, expert_bytes=self.expert_bytes * factor)

    def cache_elements(self, depth: Number) -> Number:
        """Keys and values that a token at this depth looks at."""
        return self.full_cache * depth + self.windowed_cache * smaller(depth, self.window)

    def attention_products(self, depth: Number) -> Number:
        """Multiply-adds of attention at this depth."""
        return self.full_scores * depth + self.windowed_scores * smaller(depth, self.window)

    def met_share(self, tokens: Number) -> Number:
        """The part of the experts that so many tokens meet together, if each chooses by chance."""
        return 1 - (1 - self.experts_used / self.experts) ** tokens

    def step(self, depth: Number, element_bytes: Number = F16_BYTES, tokens: Number = 1.0) -> Amounts:
        """What one step asks that brings so many conversations forward by a token."""
        used = self.experts_used / self.experts
        return Amounts(
            dense_bytes=self.dense_bytes,
            dense_weights=self.dense_weights,
            expert_bytes=self.expert_bytes * self.met_share(tokens),
            expert_weights=self.expert_weights * used,
            kinds=added(self.kinds, self.expert_kinds, used),
            met_kinds=added(self.kinds, self.expert_kinds, self.met_share(tokens)),
            cache_elements=self.cache_elements(depth) * tokens,
            attention_products=self.attention_products(depth) * tokens,
            cache_bytes=self.cache_elements(depth) * element_bytes * tokens,
            state_bytes=self.state_bytes * tokens,
            layers=self.layers,
            expert_layers=self.expert_layers,
            state_layers=self.state_layers,
            width=self.width,
            tokens=tokens,
        )

    def micro_batch(self, tokens: Number) -> Amounts:
        """What a micro-batch of a prompt shares: every weight once."""
        return self.step(0.0, tokens=tokens)._replace(
            dense_weights=larger(self.dense_weights - self.output_weights, 0.0),
            expert_weights=self.expert_weights * self.met_share(tokens),
        )

    def share(self, part: float) -> Totals:
        """So much of it, all layers alike."""
        return self._replace(
            **{name: getattr(self, name) * part for name in self._fields if name not in _NO_SUMS},
            kinds={kind: weights * part for kind, weights in self.kinds.items()},
            expert_kinds={kind: weights * part for kind, weights in self.expert_kinds.items()},
        )

    def with_experts(self, part: Number) -> Totals:
        """With so much of its experts, all layers alike."""
        return self._replace(
            expert_bytes=self.expert_bytes * part,
            expert_weights=self.expert_weights * part,
            expert_layers=self.expert_layers * part,
            expert_kinds={kind: weights * part for kind, weights in self.expert_kinds.items()},
        )

    def without(self, part: Totals) -> Totals:
        """What is left of it when another part of the same model lies elsewhere."""
        summed = (name for name in self._fields if name not in _NO_SUMS)
        left = {name: larger(getattr(self, name) - getattr(part, name), 0.0) for name in summed}
        return self._replace(
            **left,
            kinds=added(self.kinds, part.kinds, -1),
            expert_kinds=added(self.expert_kinds, part.expert_kinds, -1),
        )

    def and_also(self, part: Totals) -> Totals:
        """With another part of the same model in the same memory."""
        both = {name: getattr(self, name) + getattr(part, name) for name in self._fields if name not in _NO_SUMS}
        return self._replace(
            **both,
            kinds=added(self.kinds, part.kinds),
            expert_kinds=added(self.expert_kinds, part.expert_kinds),
            window=larger(self.window, part.window),
        )


def added(some: Mapping[str, Number], others: Mapping[str, Number], times: Number = 1.0) -> dict[str, Number]:
    """Both by kind, the second so many times."""
    names = dict.fromkeys((*some, *others))
    return {name: some.get(name, 0.0) + others.get(name, 0.0) * times for name in names}


def totals(load: ModelLoad) -> Totals:
    """The whole model."""
    return layer_totals(load, load.layers, with_output=True)


def layer_totals(load: ModelLoad, layers: Iterable[LayerLoad], *, with_output: bool) -> Totals:
    """Some of the layers of a model, with the output matrix or without."""
    some = tuple(layers)
    full, windowed = [x for x in some if not x.window], [x for x in some if x.window]
    return Totals(
        dense_bytes=sum(x.dense_bytes for x in some) + (load.output_bytes if with_output else 0.0),
        dense_weights=sum(x.dense_weights for x in some) + (load.output_weights if with_output else 0.0),
        output_weights=load.output_weights if with_output else 0.0,
        expert_bytes=sum(x.expert_bytes for x in some),
        expert_weights=sum(x.expert_weights for x in some),
        kinds=_kinds((x.kinds for x in some), {load.output_kind: load.output_weights} if with_output else {}),
        expert_kinds=_kinds((x.expert_kinds for x in some), {}),
        experts=float(load.experts if load.is_sparse else 1),
        experts_used=float(load.experts_used if load.is_sparse else 1),
        layers=float(len(some)),
        expert_layers=float(sum(x.expert_bytes > 0 for x in some)),
        state_layers=float(sum(x.state_bytes > 0 for x in some)),
        state_bytes=sum(x.state_bytes for x in some),
        width=float(load.width),
        full_cache=sum(x.key_elements + x.value_elements for x in full),
        windowed_cache=sum(x.key_elements + x.value_elements for x in windowed),
        window=max((x.window for x in windowed), default=0.0),
        full_scores=sum(x.score_products for x in full),
        windowed_scores=sum(x.score_products for x in windowed),
    )


def _kinds(some: Iterable[Mapping[str, float]], start: dict[str, float]) -> dict[str, Number]:
    sums: dict[str, Number] = dict(start)
    for one in some:
        for kind, weights in one.items():
            sums[kind] = sums.get(kind, 0.0) + weights
    return sums
