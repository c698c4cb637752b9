"""Gated short convolutions (LFM2): the state is nothing but the last inputs."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.recurrent import StateRows, by_sequence, convolved, with_last_inputs


def short_convolution(build: Build, layer: int, x: Node, rows: StateRows) -> Node:
    """A whole layer: three parts by one product, of which one is convolved and two are gates."""
    graph, name = build.graph, f"{build.block(layer)}.shortconv"
    joined = build.linear(by_sequence(build, x), f"{name}.in_proj")
    shape = (joined.shape[0] // 3, *joined.shape[1:3])
    before, after, inner = (graph.view(joined, shape, joined.strides[1:3]) for _ in range(3))
    kernel = build.weight(f"{name}.conv.weight")
    inputs = with_last_inputs(build, layer, rows, graph.mul(before, inner), kernel.shape[0])
    y = build.linear(graph.mul(after, convolved(build, inputs, kernel)), f"{name}.out_proj")
    return graph.reshape(y, y.shape[0], build.tokens)
