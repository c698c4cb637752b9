"""What one token asks of a model, by layer and as sums: bytes to read, products to compute, keys and values to see."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from unslow.catalog.weight_parts import Part, Role, parts_of_shape, plain_storage
from unslow.facts.model import Blueprint, HfShape, LayerKind, Tensor
from unslow.think.memory.llama_cpp.hyperparameters import Hyper, hyper_of
from unslow.think.physics.chip import BYTES, HALF, NIBBLES, kind_of
from unslow.think.physics.decode import Amounts
from unslow.think.physics.placement import F16_BYTES
from unslow.think.physics.terms import Number, larger, smaller

_F32_BYTES = 4
_MATRIX = 2
NO_LOAD: Mapping[str, float] = MappingProxyType({})
_EXPERTS = re.compile(r"_exps(\.|$)|_chexps")
_BLOCK, _ENCODER, _DECODER = "blk", "enc.blk", "dec.blk"
"""What the names of layers begin with: of most models, and of those with an encoder."""
_TABLES = ("token_embd.weight", "per_layer_token_embd.weight", "token_types.weight", "position_embd.weight")
"""Of these a token looks up one row."""
_KINDS = {HALF: "f16", BYTES: "q8_0", NIBBLES: "q4_0"}
"""The type of ggml that a class of types was learned by; of engines that read safetensors only the class counts."""
_STATE_BYTES = 4
_WINDOWED = frozenset({LayerKind.WINDOW, LayerKind.CHUNK})
_BESIDE = frozenset({Role.EMBEDDING, Role.OUTPUT, Role.OTHER, Role.EXPERTS})
_NO_SUMS = frozenset({"experts", "experts_used", "width", "window", "kinds", "expert_kinds"})
"""Of a model as a whole, or by kind."""


class LayerLoad(NamedTuple):
    """One layer, for one token; keys and values are elements for each token of depth."""

    dense_bytes: float = 0.0
    dense_weights: float = 0.0
    expert_bytes: float = 0.0  # Of all experts, the idle ones too
    expert_weights: float = 0.0
    kinds: Mapping[str, float] = NO_LOAD  # The dense weights by the kind of their type
    expert_kinds: Mapping[str, float] = NO_LOAD
    key_elements: float = 0.0
    value_elements: float = 0.0
    window: float = 0.0  # How far back it sees; 0 for all the way
    score_products: float = 0.0  # Multiply-adds of attention for each token of depth
    state_bytes: float = 0.0  # Of a memory that is read and written whole


class ModelLoad(NamedTuple):
    """A whole model; the output matrix is apart, because it may lie elsewhere than the layers."""

    layers: tuple[LayerLoad, ...]
    output_bytes: float
    output_weights: float
    output_kind: str
    table_bytes: float  # Of tables of which a token reads one row: next to nothing
    width: int
    experts: int = 0
    experts_used: int = 0

    @property
    def file_bytes(self) -> float:
        """All tensors together, a tied table counted once."""
        inside = sum(layer.dense_bytes + layer.expert_bytes for layer in self.layers)
        return inside + self.output_bytes + self.table_bytes

    @property
    def is_sparse(self) -> bool:
        """Whether a token meets only some of the experts."""
        return 0 < self.experts_used < self.experts

    def scale(self, factor: float) -> ModelLoad:
        """The same model with all weights as many times larger, as another mix of types makes them."""
        layers = tuple(
            layer._replace(dense_bytes=layer.dense_bytes * factor, expert_bytes=layer.expert_bytes * factor)
            for layer in self.layers
        )
        return self._replace(
            layers=layers, output_bytes=self.output_bytes * factor, table_bytes=self.table_bytes * factor
        )


class Totals(NamedTuple):
    """What lies in one memory; expert bytes and weights are those of all experts."""

    dense_bytes: Number = 0.0
    dense_weights: Number = 0.0
    output_weights: Number = 0.0  # Among the dense ones: a prompt needs them for its last token only
    expert_bytes: Number = 0.0
    expert_weights: Number = 0.0
    kinds: Mapping[str, Number] = NO_LOAD  # The dense weights by the kind of their type, and those of all experts
    expert_kinds: Mapping[str, Number] = NO_LOAD
    experts: Number = 1.0
    experts_used: Number = 1.0
    layers: Number = 0.0
    expert_layers: Number = 0.0
    state_layers: Number = 0.0
    state_bytes: Number = 0.0
    width: Number = 4096.0
    full_cache: Number = 0.0  # Elements of keys and values for each token of depth
    windowed_cache: Number = 0.0
    window: Number = 0.0
    full_scores: Number = 0.0  # Multiply-adds of attention for each token of depth
    windowed_scores: Number = 0.0

    def scale(self, factor: Number) -> Totals:
        """The same model with all weights as many times larger, as another mix of types makes them."""
        return self._replace(dense_bytes=self.dense_bytes * factor, expert_bytes=self.expert_bytes * factor)

    def cache_elements(self, depth: Number) -> Number:
        """Keys and values that a token at this depth looks at."""
        return self.full_cache * depth + self.windowed_cache * smaller(depth, self.window)

    def attention_products(self, depth: Number) -> Number:
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
            kinds=added_totals(self.kinds, self.expert_kinds, used),
            met_kinds=added_totals(self.kinds, self.expert_kinds, self.met_share(tokens)),
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
            kinds=added_totals(self.kinds, part.kinds, -1),
            expert_kinds=added_totals(self.expert_kinds, part.expert_kinds, -1),
        )

    def and_also(self, part: Totals) -> Totals:
        """With another part of the same model in the same memory."""
        both = {name: getattr(self, name) + getattr(part, name) for name in self._fields if name not in _NO_SUMS}
        return self._replace(
            **both,
            kinds=added_totals(self.kinds, part.kinds),
            expert_kinds=added_totals(self.expert_kinds, part.expert_kinds),
            window=larger(self.window, part.window),
        )


def model_load(plan: Blueprint) -> ModelLoad:
    """What a token asks of this model; UserError where its header can't be one."""
    hyper = hyper_of(plan)
    names = plan.by_name
    output = names.get("output.weight") or names.get("token_embd.weight")
    outside = [t for t in plan.tensors if not t.name.startswith(("blk.", "enc.", "dec."))]
    tables = sum(t.bytes for t in outside if t.name in _TABLES and t is not output)
    small = sum(t.bytes for t in outside if t.name not in _TABLES and t is not output)
    tables += sum(t.bytes for tensors in encoder_layers(hyper) for t in tensors)  # read once for a prompt
    return ModelLoad(
        layers=tuple(layer_load(hyper, il, tensors) for il, tensors in enumerate(walked_layers(hyper))),
        output_bytes=(output.bytes if output else 0) + small,
        output_weights=math.prod(output.shape) if output else 0,
        output_kind=kind_of(output.type) if output else "",
        table_bytes=tables,
        width=hyper.width,
        experts=plan.count("expert_count"),
        experts_used=max(hyper.experts_used, default=0),
    )


def walked_layers(hyper: Hyper) -> list[list[Tensor]]:
    """The tensors that a token of the answer goes through, layer by layer, named without what tells the layer."""
    if hyper.habits.block == _BLOCK:
        return hyper.blueprint.layer_tensors[: hyper.layers]
    return _layers_named(hyper, hyper.habits.block)


def encoder_layers(hyper: Hyper) -> list[list[Tensor]]:
    """Those of an encoder beside them (T5): nothing but the prompt goes through it."""
    return _layers_named(hyper, _ENCODER) if hyper.habits.block == _DECODER else []


def _layers_named(hyper: Hyper, block: str) -> list[list[Tensor]]:
    layers: list[list[Tensor]] = [[] for _ in range(hyper.layers)]
    for tensor in hyper.blueprint.tensors:
        if not tensor.name.startswith(f"{block}."):
            continue
        number, _, name = tensor.name.removeprefix(f"{block}.").partition(".")
        if number.isdecimal() and int(number) < len(layers):
            layers[int(number)].append(tensor._replace(name=name))
    return layers


def layer_load(hyper: Hyper, layer: int, tensors: list[Tensor]) -> LayerLoad:
    """What one token asks of these tensors of a layer, with all of the layer's keys and values."""
    experts = [t for t in tensors if _EXPERTS.search(t.name)]
    others = [t for t in tensors if not _EXPERTS.search(t.name)]
    attends = hyper.attends(layer)
    keys = hyper.key_length(layer) * hyper.kv_heads[layer] if attends else 0
    separate = attends and not hyper.is_latent  # a latent is read once for both
    return LayerLoad(
        dense_bytes=sum(t.bytes for t in others),
        dense_weights=sum(math.prod(t.shape) for t in others),
        expert_bytes=sum(t.bytes for t in experts),
        expert_weights=sum(math.prod(t.shape) for t in experts),
        kinds=_by_kind(others),
        expert_kinds=_by_kind(experts),
        key_elements=keys,
        value_elements=hyper.value_length(layer) * hyper.kv_heads[layer] if separate else 0,
        window=hyper.window if hyper.layer_windows[layer] else 0,
        score_products=(hyper.heads[layer] * (hyper.key_length(layer) + hyper.value_length(layer))) if keys else 0,
        state_bytes=_F32_BYTES * (hyper.convolution_elements + hyper.memory_elements) if hyper.recurrent[layer] else 0,
    )


def _by_kind(tensors: list[Tensor]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for tensor in tensors:
        if len(tensor.shape) >= _MATRIX:
            kind = kind_of(tensor.type)
            sums[kind] = sums.get(kind, 0.0) + math.prod(tensor.shape)
    return sums


def hf_load(shape: HfShape, parts: Sequence[Part], types: str) -> ModelLoad:
    """The load of a model whose matrices are of one class of types; a tower for images is read by no token of text."""
    counted = parts_of_shape(shape, plain_storage(1))  # a byte for each weight
    table, output = (sum(p.bytes for p in parts if p.role is role) for role in (Role.EMBEDDING, Role.OUTPUT))
    by_layer: list[tuple[list[Part], list[Part]]] = [([], []) for _ in range(shape.layers)]
    for side, held in enumerate((parts, counted)):
        for part in held:
            if 0 <= part.layer < shape.layers:
                by_layer[part.layer][side].append(part)
    after = sum(p.bytes for p in parts if p.layer >= shape.layers and p.role not in _BESIDE)
    return ModelLoad(
        layers=tuple(_layer(shape, n, sizes, weights, types) for n, (sizes, weights) in enumerate(by_layer)),
        output_bytes=float((table if shape.tied else output) + after),
        output_weights=float(shape.vocabulary * shape.width),
        output_kind=_KINDS[HALF],
        table_bytes=0.0 if shape.tied else float(table),
        width=shape.width,
        experts=shape.experts,
        experts_used=shape.experts_used,
    )


def _layer(shape: HfShape, layer: int, parts: list[Part], weights: list[Part], types: str) -> LayerLoad:
    kind = _KINDS.get(types, _KINDS[NIBBLES])
    both = (parts, weights)
    dense_bytes, dense = (float(sum(p.bytes for p in held if p.role not in _BESIDE)) for held in both)
    expert_bytes, experts = (float(sum(p.bytes for p in held if p.role is Role.EXPERTS)) for held in both)
    keys = values = scores = 0
    attends = shape.kind(layer) not in {LayerKind.RECURRENT, LayerKind.BARE}
    if attends and shape.kv_rank:  # a latent is read once for both, and all heads look at it
        keys, scores = shape.kv_rank + shape.rope_length, shape.heads * (2 * shape.kv_rank + shape.rope_length)
    elif attends:
        key, value = shape.key_length_of(layer), shape.value_length_of(layer)
        keys, values = shape.kv_heads_of(layer) * key, shape.kv_heads_of(layer) * value
        scores = shape.heads * (key + value)
    return LayerLoad(
        dense_bytes=dense_bytes,
        dense_weights=dense,
        expert_bytes=expert_bytes,
        expert_weights=experts,
        kinds={kind: dense},
        expert_kinds={kind: experts} if experts else {},
        key_elements=float(keys),
        value_elements=float(values),
        window=float(shape.window if shape.kind(layer) in _WINDOWED else 0),
        score_products=float(scores),
        state_bytes=float(_STATE_BYTES * shape.state) if shape.kind(layer) is LayerKind.RECURRENT else 0.0,
    )


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


def added_totals(some: Mapping[str, Number], others: Mapping[str, Number], times: Number = 1.0) -> dict[str, Number]:
    """Both by kind, the second so many times."""
    names = dict.fromkeys((*some, *others))
    return {name: some.get(name, 0.0) + others.get(name, 0.0) * times for name in names}
