"""What one token asks of a model: bytes to read, products to compute, keys and values to look at, layer by layer."""

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from unslow.facts.blueprint import Blueprint, Tensor
from unslow.think.memory.llama_cpp.hyper import Hyper, hyper_of
from unslow.think.physics.kinds import kind_of

_F32_BYTES = 4
_EXPERTS = re.compile(r"_exps(\.|$)|_chexps")
_BLOCK, _ENCODER, _DECODER = "blk", "enc.blk", "dec.blk"
"""What the names of layers begin with: of most models, and of those with an encoder."""
_TABLES = ("token_embd.weight", "per_layer_token_embd.weight", "token_types.weight", "position_embd.weight")
"""Of these a token looks up one row."""
_MATRIX = 2
NOTHING: Mapping[str, float] = MappingProxyType({})


class LayerLoad(NamedTuple):
    """One layer, for one token; keys and values are elements for each token of depth."""

    dense_bytes: float = 0.0
    dense_weights: float = 0.0
    expert_bytes: float = 0.0
    """Of all experts, the idle ones too."""
    expert_weights: float = 0.0
    kinds: Mapping[str, float] = NOTHING
    """The dense weights by the kind of their type."""
    expert_kinds: Mapping[str, float] = NOTHING
    key_elements: float = 0.0
    value_elements: float = 0.0
    window: float = 0.0
    """How far back it sees; 0 for all the way."""
    score_products: float = 0.0
    """Multiply-adds of attention for each token of depth."""
    state_bytes: float = 0.0
    """Of a memory that is read and written whole."""


class ModelLoad(NamedTuple):
    """A whole model; the output matrix is apart, because it may lie elsewhere than the layers."""

    layers: tuple[LayerLoad, ...]
    output_bytes: float
    output_weights: float
    output_kind: str
    table_bytes: float
    """Of tables of which a token reads one row: next to nothing."""
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

    def scaled(self, factor: float) -> "ModelLoad":
        """The same model with all weights as many times larger, as another mix of types makes them."""
        layers = tuple(
            layer._replace(dense_bytes=layer.dense_bytes * factor, expert_bytes=layer.expert_bytes * factor)
            for layer in self.layers
        )
        return self._replace(
            layers=layers, output_bytes=self.output_bytes * factor, table_bytes=self.table_bytes * factor
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
    keys, values = _cached_elements(hyper, layer)
    return LayerLoad(
        dense_bytes=sum(t.bytes for t in others),
        dense_weights=sum(math.prod(t.shape) for t in others),
        expert_bytes=sum(t.bytes for t in experts),
        expert_weights=sum(math.prod(t.shape) for t in experts),
        kinds=_by_kind(others),
        expert_kinds=_by_kind(experts),
        key_elements=keys,
        value_elements=values,
        window=hyper.window if hyper.windowed[layer] else 0,
        score_products=_score_products(hyper, layer) if keys else 0,
        state_bytes=_F32_BYTES * hyper.state_elements(layer) if hyper.recurrent[layer] else 0,
    )


def _by_kind(tensors: list[Tensor]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for tensor in tensors:
        if len(tensor.shape) >= _MATRIX:
            kind = kind_of(tensor.type)
            sums[kind] = sums.get(kind, 0.0) + math.prod(tensor.shape)
    return sums


def _cached_elements(hyper: Hyper, layer: int) -> tuple[float, float]:
    """Elements of keys and values that a token of depth adds; a latent is read once for both."""
    if not hyper.attends(layer):
        return 0, 0
    keys = hyper.key_length(layer) * hyper.kv_heads[layer]
    return keys, 0 if hyper.is_latent else hyper.value_length(layer) * hyper.kv_heads[layer]


def _score_products(hyper: Hyper, layer: int) -> float:
    return hyper.heads[layer] * (hyper.key_length(layer) + hyper.value_length(layer))
