"""Experts: each token is routed to a few of many networks, and what they say is added up."""

from unslow.think.memory.llama_cpp.activation import gated
from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.graph import UnknownLayoutError
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.router import routed


def experts(build: Build, layer: int, x: Node, scores: Node | None = None, kind: str = "exps") -> Node:
    """Route each token to its experts, or to those of another kind, and add up what they say."""
    graph, name = build.graph, build.block(layer)
    width, tokens = x.shape[0], x.shape[1]
    down = f"{name}.ffn_down_{kind}"
    count = build.weight(f"{down}.weight").shape[2]
    used = min(build.hyper.experts_used[layer], count)
    if used < 1:
        raise UnknownLayoutError(f"layer {layer} has experts, and uses none")
    scores = build.linear(x, f"{name}.ffn_gate_inp") if scores is None else scores
    chosen, weights = routed(build, layer, scores, used, by_groups=count < scores.shape[0])
    graph.expand(weights)
    inner = graph.reshape(x, width, 1, tokens)
    weighs_first = build.hyper.habits.weighs_experts_first
    if weighs_first:
        inner = graph.mul(graph.repeat(inner, width, used, tokens), weights)
    inner = _inside(build, layer, inner, chosen, kind)
    result = _expert_linear(build, inner, down, chosen)
    if not weighs_first:
        result = graph.mul(result, weights)
    graph.expand(result)
    return _summed(build, result, used)


def _inside(build: Build, layer: int, x: Node, chosen: Node, kind: str) -> Node:
    """The experts' gate and up matrices and their activation."""
    graph, name = build.graph, f"{build.block(layer)}.ffn"
    if build.has(f"{name}_gate_up_{kind}.weight"):
        both = _expert_linear(build, x, f"{name}_gate_up_{kind}", chosen)
        half = both.shape[0] // 2
        parts = [graph.view(both, (half, *both.shape[1:3]), both.strides[1:3]) for _ in range(2)]
        return graph.glu(*parts)
    up = _expert_linear(build, x, f"{name}_up_{kind}", chosen)
    if build.has(f"{name}_gate_{kind}.weight"):
        gate = _expert_linear(build, x, f"{name}_gate_{kind}", chosen)
        return gated(build, layer, gate, up, "exp")
    inner = graph.unary(up)
    return graph.unary(inner, "sqr") if build.hyper.habits.squares else inner


def _expert_linear(build: Build, x: Node, name: str, chosen: Node) -> Node:
    graph = build.graph
    product = graph.mul_mat_id(build.weight(f"{name}.weight"), x, chosen)
    if build.has(f"{name}.scale"):
        scales = build.weight(f"{name}.scale")
        count, tokens = scales.shape[0], x.shape[2]
        scales = graph.repeat(graph.reshape(scales, 1, count, 1), 1, count, tokens)
        product = graph.mul(product, graph.get_rows(scales, chosen))
    if build.has(f"{name}.bias"):
        product = graph.add_id(product, build.weight(f"{name}.bias"), chosen)
    return product


def _summed(build: Build, result: Node, used: int) -> Node:
    """The experts' results added one after the other."""
    graph = build.graph
    width, _, tokens = result.shape[:3]
    parts = [graph.expand(graph.view(result, (width, tokens), (result.strides[2],))) for _ in range(used)]
    total = parts[0]
    for part in parts[1:]:
        total = graph.expand(graph.add(total, part))
    return graph.cont(total) if used == 1 else total
