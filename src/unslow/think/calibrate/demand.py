"""What a model asks for each token, read from its tensors."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from unslow.facts.blueprint import Blueprint, Tensor
from unslow.facts.calibration import Demand
from unslow.facts.tensor_table import layer_of
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.physics.kv_cache import element_bytes

_LOOKED_UP = ("token_embd.weight", "position_embd.weight", "token_types.weight", "rope_freqs.weight")
"""Tables of which a token reads one row."""
_OUTPUT = "output.weight"
_EXPERTS = "_exps."
_MATRIX = 2


class _Read(NamedTuple):
    """A tensor, and the share of it that a token reads."""

    tensor: Tensor
    share: float
    in_layer: bool

    @property
    def bytes(self) -> float:
        return self.tensor.bytes * self.share

    @property
    def rows(self) -> float:
        """Dot products: one for each row of a matrix, none for the elements of a vector."""
        _, *others = self.tensor.shape
        return math.prod(others) * self.share if others else 0.0


def demand_of(plan: Blueprint, depth: int = 1, kv_types: tuple[str, str] = ("f16", "f16")) -> Demand:
    """The demand of one token with so many before it, all on one device; UserError for a model nobody could load."""
    reads = list(_reads(plan))
    layers = [read for read in reads if read.in_layer]
    elements, kv_bytes = _attention(plan, depth, kv_types)
    return Demand(
        bytes_by_type=_by_type(reads),
        layer_bytes_by_type=_by_type(layers),
        expert_bytes=sum(read.bytes for read in layers if _EXPERTS in read.tensor.name),
        layers=len(plan.layer_tensors),
        operations=len(layers),
        rows=sum(read.rows for read in layers),
        vocabulary=_vocabulary(plan),
        attention_elements=elements,
        kv_bytes=kv_bytes,
        depth_tokens=depth,
    )


def _by_type(reads: list[_Read]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for read in reads:
        found[read.tensor.type] += read.bytes
    return dict(found)


def _reads(plan: Blueprint) -> Iterator[_Read]:
    """The tensors that a token passes; the token table counts where it is the output matrix too."""
    tied = _OUTPUT not in plan.by_name
    experts = plan.count("expert_count")
    used = min(1.0, plan.count("expert_used_count") / experts) if experts else 1.0
    last = plan.count("block_count") - plan.count("nextn_predict_layers")  # layers that only draft are not passed
    for tensor in plan.tensors:
        layer = layer_of(tensor.name)
        if layer >= last:
            continue
        if layer < 0 and tensor.name.endswith(_LOOKED_UP) and not (tied and tensor.name == _LOOKED_UP[0]):
            continue
        yield _Read(tensor, used if _EXPERTS in tensor.name else 1.0, layer >= 0)


def _vocabulary(plan: Blueprint) -> int:
    """Rows of the output matrix, which are what is multiplied and sampled."""
    matrix = plan.by_name.get(_OUTPUT) or plan.by_name.get(_LOOKED_UP[0])
    return matrix.shape[-1] if matrix and len(matrix.shape) == _MATRIX else plan.vocabulary


def _attention(plan: Blueprint, depth: int, kv_types: tuple[str, str]) -> tuple[float, float]:
    """Elements of keys and values for each query head, and bytes of keys and values, at this depth."""
    hyper, elements, count = Hyper(plan), 0.0, 0.0
    key_bytes, value_bytes = (element_bytes(kind) for kind in kv_types)
    for layer in range(min(hyper.layers, len(plan.layer_tensors))):
        if not hyper.attends(layer):
            continue
        seen = min(depth, hyper.window) if hyper.windowed[layer] and hyper.window else depth
        key, value = hyper.key_length(layer), hyper.value_length(layer)
        elements += seen * hyper.heads[layer] * (key + value)
        count += seen * hyper.kv_heads[layer] * (key * key_bytes + (0 if hyper.is_latent else value * value_bytes))
    return elements, count
