"""The tensors of a model by what they are for."""

import re
from collections import Counter
from collections.abc import Sequence
from math import prod

import msgspec

from unslow.facts.blueprint import Tensor
from unslow.facts.model_bounds import MOST_LAYERS
from unslow.facts.tensor_table import layer_of

_EXPERT = re.compile(r"_(?:ch)?exps\.|\.ffn_(?:gate|up|down)\.\d+\.")  # all in one tensor, or one tensor each (2024)


class Tensors(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a model's tensors by what they are for."""

    count: int
    elements: int
    bytes: int
    layer_bytes: list[int]
    expert_bytes: int
    token_table_bytes: int
    layer_table_bytes: int
    """A second table that is only looked up, such as Gemma 3n's."""
    output_bytes: int
    """0 where the token table is the output matrix too."""
    type_bytes: dict[str, int]


def summary(tensors: Sequence[Tensor]) -> Tensors:
    """The tensors by what they are for."""
    sizes = {t.name: t.bytes for t in tensors}
    types: Counter[str] = Counter()
    for tensor in tensors:
        types[tensor.type] += tensor.bytes
    return Tensors(
        count=len(tensors),
        elements=sum(prod(t.shape) for t in tensors),
        bytes=sum(t.bytes for t in tensors),
        layer_bytes=_layer_bytes(tensors),
        expert_bytes=sum(t.bytes for t in tensors if _EXPERT.search(t.name)),
        token_table_bytes=sizes.get("token_embd.weight", 0),
        layer_table_bytes=sizes.get("per_layer_token_embd.weight", 0),
        output_bytes=sizes.get("output.weight", 0),
        type_bytes=dict(types),
    )


def _layer_bytes(tensors: Sequence[Tensor]) -> list[int]:
    layers: Counter[int] = Counter()
    for tensor in tensors:
        if 0 <= (layer := layer_of(tensor.name)) < MOST_LAYERS:
            layers[layer] += tensor.bytes
    return [layers[n] for n in range(max(layers, default=-1) + 1)]
