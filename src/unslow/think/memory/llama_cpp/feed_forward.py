"""The second half of a layer: one network for all tokens, or experts chosen for each."""

from unslow.think.memory.llama_cpp.activation import gated
from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.experts import experts
from unslow.think.memory.llama_cpp.node import Node

__all__ = ["dense", "experts", "feed_forward", "two_networks"]


def feed_forward(build: Build, layer: int, x: Node, scores: Node | None = None) -> Node:
    """Whatever the layer's tensors say that it has; a router's scores may come from elsewhere."""
    name, graph = build.block(layer), build.graph
    if not build.has(f"{name}.ffn_gate_inp.weight"):
        return dense(build, layer, x)
    result = _chosen(build, layer, x, scores)
    if build.has(f"{name}.ffn_up_shexp.weight"):
        result = graph.add(result, _shared(build, layer, x))
        return graph.scale(result) if build.hyper.habits.scales_shared_sum else result
    if build.hyper.habits.mixes_dense and build.has(f"{name}.ffn_up.weight"):
        return graph.scale(graph.add(dense(build, layer, x), result))
    return result


def dense(build: Build, layer: int, x: Node, suffix: str = "") -> Node:
    """A network of two or three matrices."""
    name, graph = f"{build.block(layer)}.ffn", build.graph
    up = build.linear(x, f"{name}_up{suffix}")
    if build.has(f"{name}_gate{suffix}.weight"):
        inner = gated(build, layer, build.linear(x, f"{name}_gate{suffix}"), up, "shexp")
    elif build.weight(f"{name}_down{suffix}.weight").shape[0] * 2 == up.shape[0]:
        inner = graph.glu(up)
    else:
        inner = _activated(build, layer, up)
    if build.has(f"{name}_sub_norm.weight"):
        inner = build.norm(inner, f"{name}_sub_norm")
    return build.linear(inner, f"{name}_down{suffix}")


def _activated(build: Build, layer: int, x: Node) -> Node:
    scales = f"{build.block(layer)}.ffn.act.scales"
    x = build.graph.unary(x)
    if build.has(scales):
        return build.graph.binary("div", x, build.weight(scales))
    return build.graph.unary(x, "sqr") if build.hyper.habits.squares else x


def _chosen(build: Build, layer: int, x: Node, scores: Node | None) -> Node:
    """What the experts say; some read and answer in a narrower space (Nemotron 3 Super, Kimi K3)."""
    name = f"{build.block(layer)}.ffn"
    if build.has(f"{name}_up_chexps.weight"):
        return _twice(build, layer, x)
    space = next((s for s in ("latent", "routed") if build.has(f"{name}_{s}_down.weight")), "")
    if not space:
        return experts(build, layer, x, scores)
    narrow = build.linear(x, f"{name}_{space}_down")
    answer = experts(build, layer, narrow, scores or build.linear(x, f"{name}_gate_inp"))
    if build.has(f"{name}_{space}_norm.weight"):
        answer = build.norm(answer, f"{name}_{space}_norm")
    return build.linear(answer, f"{name}_{space}_up")


def _twice(build: Build, layer: int, x: Node) -> Node:
    """Experts, then smaller ones that whole groups of them share (GroveMoE)."""
    graph = build.graph
    scores = build.linear(x, f"{build.block(layer)}.ffn_gate_inp")
    first = experts(build, layer, x, scores)
    return graph.add(first, graph.scale(experts(build, layer, first, scores, "chexps")))


def _shared(build: Build, layer: int, x: Node) -> Node:
    """The expert that every token uses, gated where it has a gate."""
    graph, name = build.graph, build.block(layer)
    result = dense(build, layer, x, "_shexp")
    if not build.has(f"{name}.ffn_gate_inp_shexp.weight"):
        return result
    score = build.linear(x, f"{name}.ffn_gate_inp_shexp")
    gate = graph.unary(score)
    if build.hyper.habits.divides_shared_gate:
        gate = graph.binary("div", gate, score)
    return graph.mul(result, gate)


def two_networks(build: Build, layer: int, x: Node) -> Node:
    """A network for all tokens and experts beside it, each with norms of its own (Gemma 4)."""
    graph, name = build.graph, build.block(layer)
    for_all = build.norm(dense(build, layer, build.norm(x, f"{name}.ffn_norm")), f"{name}.post_ffw_norm_1")
    routed = graph.mul(graph.scale(graph.norm(x)), build.weight(f"{name}.ffn_gate_inp.scale"))
    scores = graph.mul_mat(build.weight(f"{name}.ffn_gate_inp.weight"), routed)
    chosen = experts(build, layer, build.norm(x, f"{name}.pre_ffw_norm_2"), scores)
    return graph.add(for_all, build.norm(chosen, f"{name}.post_ffw_norm_2"))
