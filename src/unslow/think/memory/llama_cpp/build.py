"""What every part of a model's graph is built with: weights, inputs, norms, products."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from unslow.catalog.quants import quants
from unslow.think.memory.llama_cpp.graph import Graph, Node, UnknownLayoutError, four
from unslow.think.memory.llama_cpp.hyperparameters import Hyper
from unslow.think.memory.llama_cpp.places import Places
from unslow.think.memory.llama_cpp.settings import Settings

_PICKED_INSIDE = ("attention", "post_norm", "sum", "feed_forward")
"""The places of a layer after which only the wanted tokens may go on."""


class Kernels(NamedTuple):
    """Which operations run as one kernel; llama.cpp spells out those that a layer's device can't compute."""

    flash_attention: bool = True
    delta_step: bool = True  # A gated delta network, one token for each sequence
    delta_chunk: bool = True  # The same for many tokens
    stream_sums: bool = True  # What a layer reads of several residual streams
    stream_weights: bool = True  # How much of each stream goes into each
    stream_writes: bool = True  # What a layer adds to them
    indexer: bool = True  # What picks the tokens that sparse attention sees


class Build:
    """A graph under construction for one model, its settings and its placement."""

    def __init__(
        self, hyper: Hyper, settings: Settings, places: Places, kernels: Kernels, tokens: int | None = None
    ) -> None:
        self.hyper, self.settings, self.places, self.kernels = hyper, settings, places, kernels
        self.graph = Graph()
        self.fused: list[tuple[int, Node]] = []
        """The nodes that are one kernel, with their layers."""
        self.layers: Sequence[int] = ()
        """Those that are laid out; as many as surely do where nobody says."""
        self.ends: list[Node] = []
        """What each of them hands on."""
        self.is_trial = tokens is not None
        """Whether the graph is only made to see which kernels can be used."""
        self.tokens = settings.tokens if tokens is None else tokens
        self.sequence_tokens = self.tokens // settings.slots
        """The tokens of each sequence, which all have equally many."""
        self.block = hyper.block
        self._tensors = hyper.blueprint.by_name
        self._weights: dict[tuple[str, int], Node] = {}
        self._inputs: dict[str, Node] = {}
        self.positions = self.graph.input("I32", self.tokens * hyper.positions, name="positions")
        asked = settings._replace(outputs=0) if hyper.habits.has_encoder else settings
        outputs = asked.most_outputs if tokens is None else tokens
        self.wanted = self.graph.input("I32", outputs, name="wanted outputs")

    def has(self, name: str) -> bool:
        """Whether the model has such a tensor."""
        return name in self._tensors

    def weight(self, name: str, place: int | None = None) -> Node:
        """A tensor of the model, where it lies or at a given place."""
        home = self.places.tensor(name) if place is None else place
        if (name, home) not in self._weights:
            tensor = self._tensors.get(name)
            if tensor is None:
                architecture = self.hyper.blueprint.architecture
                raise UnknownLayoutError(f"layers of the architecture {architecture!r} are not known: no {name}")
            if tensor.type not in quants():
                raise UnknownLayoutError(f"{name} is of a type that is not known")
            node = Node("none", tensor.type, four(tensor.shape), name=name)
            node.home, node.is_weight = home, True
            self._weights[name, home] = node
        return self._weights[name, home]

    def size(self, key: str) -> int:
        """A number of the file that sizes are made of; UnknownLayoutError where it has none."""
        number = self.hyper.blueprint.count(key)
        if number < 1:
            raise UnknownLayoutError(f"the file has no {key}")
        return number

    def picks(self, layer: int) -> str:
        """Where in this layer the wanted tokens are picked; empty where all go on."""
        place = self.hyper.habits.picks_outputs
        return place if layer == self.hyper.layers - 1 and place in _PICKED_INSIDE else ""

    @cached_property
    def token_numbers(self) -> Node:
        """The tokens themselves."""
        return self.graph.input("I32", self.tokens, name="tokens")

    def shared_input(self, kind: str, *shape: int, name: str) -> Node:
        """An input that several layers read, made when the first one asks for it."""
        if name not in self._inputs:
            self._inputs[name] = self.graph.input(kind, *shape, name=name)
        return self._inputs[name]

    def linear(self, x: Node, name: str) -> Node:
        """A product with a weight, and its bias where it has one."""
        product = self.graph.mul_mat(self.weight(f"{name}.weight"), x)
        if self.has(f"{name}.scale"):
            product = self.graph.mul(product, self.weight(f"{name}.scale"))
        return self.graph.add(product, self.weight(f"{name}.bias")) if self.has(f"{name}.bias") else product

    def has_norm(self, name: str) -> bool:
        """Whether there is a weight for a norm; some files leave out what its name ends with elsewhere."""
        return self.has(f"{name}.weight") or self.has(name)

    def norm(self, x: Node, name: str, op: str = "") -> Node:
        """A norm with its weight and bias; without a weight of that name, the norm alone."""
        normed = self.graph.norm(x, op or self.hyper.norm)
        if self.has_norm(name):
            full = f"{name}.weight"
            normed = self.graph.mul(normed, self.weight(full if self.has(full) else name))
        return self.graph.add(normed, self.weight(f"{name}.bias")) if self.has(f"{name}.bias") else normed

    def cached(self, kind: str, layer: int, *shape: int) -> Node:
        """A tensor of a layer's cache."""
        node = Node("none", kind, four(shape), name=f"cache {layer}")
        node.home = self.places.cache(layer)
        return node
