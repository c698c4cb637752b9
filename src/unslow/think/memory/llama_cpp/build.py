"""What every part of a model's graph is built with: weights, inputs, norms, products."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.graph import Graph
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.node import Node, four
from unslow.think.memory.llama_cpp.places import Places
from unslow.think.memory.llama_cpp.settings import Settings


class Kernels(NamedTuple):
    """Which operations run as one kernel; llama.cpp spells out those that a layer's device can't compute."""

    flash_attention: bool = True
    delta_step: bool = True
    """A gated delta network, one token for each sequence."""
    delta_chunk: bool = True
    """The same for many tokens."""


class Build:
    """A graph under construction for one model, its settings and its placement."""

    def __init__(
        self, hyper: Hyper, settings: Settings, places: Places, kernels: Kernels, tokens: int | None = None
    ) -> None:
        self.hyper, self.settings, self.places, self.kernels = hyper, settings, places, kernels
        self.graph = Graph()
        self.fused: list[tuple[int, Node]] = []
        """The nodes that are one kernel, with their layers."""
        self.tokens = settings.tokens if tokens is None else tokens
        self._weights: dict[tuple[str, int], Node] = {}
        self.positions = self.graph.input("I32", self.tokens * hyper.habits.positions, name="positions")
        outputs = settings.most_outputs if tokens is None else tokens
        self.wanted = self.graph.input("I32", outputs, name="wanted outputs")

    def has(self, name: str) -> bool:
        """Whether the model has such a tensor."""
        return name in self.hyper.blueprint.by_name

    def weight(self, name: str, place: int | None = None) -> Node:
        """A tensor of the model, where it lies or at a given place."""
        home = self.places.tensor(name) if place is None else place
        if (name, home) not in self._weights:
            tensor = self.hyper.blueprint.by_name[name]
            node = Node("none", tensor.type, four(tensor.shape), name=name)
            node.home, node.is_weight = home, True
            self._weights[name, home] = node
        return self._weights[name, home]

    def linear(self, x: Node, name: str) -> Node:
        """A product with a weight, and its bias where it has one."""
        product = self.graph.mul_mat(self.weight(f"{name}.weight"), x)
        if self.has(f"{name}.scale"):
            product = self.graph.mul(product, self.weight(f"{name}.scale"))
        return self.graph.add(product, self.weight(f"{name}.bias")) if self.has(f"{name}.bias") else product

    def norm(self, x: Node, name: str, op: str = "") -> Node:
        """A norm with its weight and bias; without a weight of that name, the norm alone."""
        normed = self.graph.norm(x, op or self.hyper.habits.norm)
        if self.has(f"{name}.weight"):
            normed = self.graph.mul(normed, self.weight(f"{name}.weight"))
        return self.graph.add(normed, self.weight(f"{name}.bias")) if self.has(f"{name}.bias") else normed

    def cached(self, kind: str, layer: int, *shape: int) -> Node:
        """A tensor of a layer's cache."""
        node = Node("none", kind, four(shape), name=f"cache {layer}")
        node.home = self.places.cache(layer)
        return node
