"""Gated activations: one kernel, or spelled out where an architecture bounds them."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.graph import Graph
from unslow.think.memory.llama_cpp.node import Node


def gated(build: Build, layer: int, gate: Node, up: Node, what: str) -> Node:
    """The inner values of a layer's experts (`exp`), or of its other network (`shexp`)."""
    number = build.hyper.blueprint.number
    if number("activation.situ_beta"):
        return _squashed(build.graph, gate, up, both=number("activation.situ_linear_beta") > 0)
    first = build.hyper.habits.clamps_first
    return build.graph.gated(gate, up, clamps=build.hyper.clamps(what, layer), clamps_first=first)


def _squashed(graph: Graph, gate: Node, up: Node, *, both: bool) -> Node:
    """By a hyperbolic tangent, the gate or both (Kimi K3)."""
    gate = graph.mul(_bounded(graph, gate), graph.unary(gate))
    return graph.mul(gate, _bounded(graph, up) if both else up)


def _bounded(graph: Graph, x: Node) -> Node:
    return graph.scale(graph.unary(graph.scale(x)))
