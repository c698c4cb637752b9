"""A model in the pieces that can lie apart: the layers, and the feed-forward tensors inside each.

Sums from the first layer on are kept, so that what a placement leaves to the host is a few additions.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from unslow.facts.model import Blueprint, Tensor
from unslow.think.memory.llama_cpp.hyperparameters import Hyper, hyper_of
from unslow.think.memory.llama_cpp.model_graph import alike_layers
from unslow.think.speed import load as loads
from unslow.think.speed.load import LayerLoad, ModelLoad, Totals, layer_totals

if TYPE_CHECKING:
    from unslow.think.physics.terms import Number

_MOVABLE = re.compile(r"ffn_(up|gate|down|gate_up)(_exps|_chexps)?\.weight$")
"""Matrices of a feed-forward network, or of all its experts: large, without a cache, and read once for each token."""
_ORDER = {"up": 0, "gate": 1, "gate_up": 1, "down": 2}


class Piece(NamedTuple):
    """A tensor that can lie on the host while its layer is on a GPU."""

    name: str  # Without `blk.N.`
    bytes: int
    totals: Totals
    of_experts: bool


class Layer(NamedTuple):
    """One layer: what stays together, and what can lie apart."""

    rest: Totals
    rest_bytes: int
    pieces: tuple[Piece, ...]

    @property
    def piece_bytes(self) -> int:
        """Of all that can lie apart."""
        return sum(piece.bytes for piece in self.pieces)


class Pieces:
    """All layers of a model, with sums from the first on."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.parted: dict[tuple[int, ...], tuple[Totals, Totals]] = {}
        """What placings leave to the host and to GPUs, as far as asked."""
        self.stacked: dict[tuple[tuple[int, ...], ...], tuple[Totals, Totals, Number]] = {}
        """The same of many at once, and their crossings."""

    @cached_property
    def load(self) -> ModelLoad:
        """What reading it takes."""
        return loads.model_load(self.blueprint)

    @cached_property
    def is_sparse(self) -> bool:
        """Whether any layer has experts: then only those lie apart, of which a token meets few."""
        return any(_is_of_experts(t) for tensors in self._layers_in_order for t in tensors)

    @cached_property
    def widest(self) -> int:
        """The most numbers of one token that meet a matrix of a layer."""
        return max((t.shape[0] for tensors in self._layers_in_order for t in tensors if len(t.shape) > 1), default=0)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """All that a token goes through."""
        hyper = hyper_of(self.blueprint)
        alike, made = alike_layers(hyper), dict[Hashable, Layer]()
        keys = [((alike[n], *each), n, each) for n, each in enumerate(self._layers_in_order)]
        for kind, layer, tensors in keys:
            if kind not in made:  # most layers are like one before
                made[kind] = self._layer(hyper, layer, tensors)
        layers = tuple(made[kind] for kind, _, _ in keys)
        beside = [sum(t.bytes for t in tensors) for tensors in loads.encoder_layers(hyper)]
        if not beside:
            return layers
        # a name of a layer means that of the encoder too, so that nothing of it can be told apart
        return tuple(
            Layer(self._totals(load, attends=True), layer.rest_bytes + layer.piece_bytes + size, ())
            for layer, load, size in zip(layers, self.load.layers, beside, strict=True)
        )

    @cached_property
    def all_pieces(self) -> Totals:
        """All of it."""
        return layer_totals(self.load, self.load.layers, with_output=True)

    @cached_property
    def _layers_in_order(self) -> list[list[Tensor]]:
        return loads.walked_layers(hyper_of(self.blueprint))

    def _layer(self, hyper: Hyper, layer: int, tensors: list[Tensor]) -> Layer:
        movable = [t for t in tensors if _MOVABLE.match(t.name) and _is_of_experts(t) == self.is_sparse]
        movable.sort(key=lambda t: _ORDER.get(_MOVABLE.match(t.name)[1], 3))  # type: ignore[index]
        rest = [t for t in tensors if t not in movable]
        pieces = tuple(
            Piece(t.name, t.bytes, self._totals(loads.layer_load(hyper, layer, [t]), attends=False), _is_of_experts(t))
            for t in movable
        )
        return Layer(
            self._totals(loads.layer_load(hyper, layer, rest), attends=True), sum(t.bytes for t in rest), pieces
        )

    def _totals(self, load: LayerLoad, *, attends: bool) -> Totals:
        """Of a part of a layer; only one part has the cache, and counts as a layer."""
        if not attends:
            load = LayerLoad(
                load.dense_bytes, load.dense_weights, load.expert_bytes, load.expert_weights, load.kinds,
                load.expert_kinds,
            )  # fmt: skip
        return layer_totals(self.load, (load,), with_output=False)._replace(layers=float(attends), expert_layers=0.0)

    @cached_property
    def rests(self) -> tuple[Totals, ...]:
        """What stays together of so many first layers."""
        return tuple(accumulate((layer.rest for layer in self.layers), Totals.and_also, initial=self.nothing))

    @cached_property
    def parts(self) -> tuple[Totals, ...]:
        """What can lie apart of so many first layers."""
        each = (self._together(layer.pieces) for layer in self.layers)
        return tuple(accumulate(each, Totals.and_also, initial=self.nothing))

    @cached_property
    def sparse_layers(self) -> tuple[int, ...]:
        """How many of so many first layers have experts."""
        return tuple(accumulate((any(piece.of_experts for piece in layer.pieces) for layer in self.layers), initial=0))

    @cached_property
    def parted_layers(self) -> tuple[int, ...]:
        """How many of so many first layers have anything that can lie apart."""
        return tuple(accumulate((bool(layer.pieces) for layer in self.layers), initial=0))

    @cached_property
    def nothing(self) -> Totals:
        """No part of it."""
        return layer_totals(self.load, (), with_output=False)

    def _together(self, pieces: tuple[Piece, ...]) -> Totals:
        sums = self.nothing
        for piece in pieces:
            sums = sums.and_also(piece.totals)
        return sums

    def some(self, layer: int, count: int) -> Totals:
        """The first pieces of a layer, so many."""
        return self._together(self.layers[layer].pieces[:count])


def _is_of_experts(tensor: Tensor) -> bool:
    return "exps" in tensor.name
