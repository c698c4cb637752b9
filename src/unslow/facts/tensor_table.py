"""The list of tensors in a small space: layers that are alike are written once."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from unslow.facts.blueprint import Tensor

MOST_TENSORS = 65_536
"""Ten times what the largest model has."""

_LAYER = re.compile(r"blk\.(0|[1-9][0-9]{0,3})\.")
_ANY_LAYER = "blk.*."
_NO_LAYER = -1


class Table(msgspec.Struct, frozen=True):
    """Tensors in the order of the file, as kinds of layers and which layer is of which kind."""

    kinds: list[list[Tensor]]
    """With `*` for the number of the layer in their names."""
    order: list[tuple[int, int]]
    """A kind, and a layer of that kind; -1 where the tensors belong to none."""


def packed(tensors: Iterable[Tensor]) -> Table:
    """The table of these tensors."""
    kinds: dict[tuple[Tensor, ...], int] = {}
    order = []
    for layer, group in groupby(tensors, key=lambda t: layer_of(t.name)):
        kind = tuple(_without(layer, t) for t in group)
        order.append((kinds.setdefault(kind, len(kinds)), layer))
    return Table([list(k) for k in kinds], order)


def unpacked(table: Table) -> list[Tensor]:
    """The tensors of a table; ValueError where a table that was edited by hand has none such."""
    tensors: list[Tensor] = []
    for kind, layer in table.order:
        if not 0 <= kind < len(table.kinds) or len(tensors) + len(table.kinds[kind]) > MOST_TENSORS:
            raise ValueError("has a recorded list of tensors that does not fit")
        tensors += _of_layer(layer, table.kinds[kind])
    return tensors


def layer_of(name: str) -> int:
    """The layer that a tensor belongs to, or -1."""
    found = _LAYER.match(name)
    return int(found[1]) if found else _NO_LAYER


def _without(layer: int, tensor: Tensor) -> Tensor:
    return tensor if layer == _NO_LAYER else tensor._replace(name=_LAYER.sub(_ANY_LAYER, tensor.name, count=1))


def _of_layer(layer: int, kind: Sequence[Tensor]) -> Iterable[Tensor]:
    if layer == _NO_LAYER:
        return kind
    return (t._replace(name=t.name.replace(_ANY_LAYER, f"blk.{layer}.", 1)) for t in kind)
