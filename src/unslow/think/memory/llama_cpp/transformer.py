"""A layer of a transformer: attention, or what stands for it, then a feed-forward network, with norms and sums."""

from collections.abc import Callable
from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.feed_forward import dense, experts, feed_forward, two_networks
from unslow.think.memory.llama_cpp.node import Node

Mixer = Callable[[Node], Node]
"""What lets the tokens of a layer see each other."""


class _Norms(NamedTuple):
    """The names of a layer's norms, by what they do; empty where there is none."""

    first: str
    after_mixing: str
    second: str
    after_feeding: str


def transformer_layer(build: Build, layer: int, x: Node, mix: Mixer) -> Node:
    """One layer, in the order that its tensors and its architecture tell."""
    name, norms = build.block(layer), _norms(build, layer)
    if not build.hyper.has_both_halves(layer):
        return _one_half(build, layer, x, mix, norms)
    if not norms.first and build.has(f"{name}.layer_output_norm.weight"):
        return _norms_after_sums(build, layer, x, mix)
    if build.hyper.is_parallel or (norms.first and not norms.second):
        return _side_by_side(build, layer, x, mix, norms)
    return _one_after_another(build, layer, x, mix, norms)


def _norms(build: Build, layer: int) -> _Norms:
    """Which norm does what: some files name the second one after the first half."""
    name = build.block(layer)

    def known(*parts: str) -> str:
        return next((f"{name}.{p}" for p in parts if build.has_norm(f"{name}.{p}")), "")

    if build.hyper.habits.norms_without_weights:
        return _Norms(f"{name}.attn_norm", "", f"{name}.ffn_norm", "")
    first, second = known("cross_attn_norm", "attn_norm"), known("ffn_norm")
    between = known("post_attention_norm", "attn_output_norm")
    if first and not second:
        second, between = between, ""
    return _Norms(first, between, second, known("post_ffw_norm", "layer_output_norm"))


def _normed(build: Build, x: Node, name: str) -> Node:
    return build.norm(x, name) if name else x


def _one_half(build: Build, layer: int, x: Node, mix: Mixer, norms: _Norms) -> Node:
    """A layer that only mixes tokens (Mamba), or only feeds each forward (some of Nemotron-H)."""
    mixed = mix(_normed(build, x, norms.first or norms.second))
    if build.picks(layer):
        mixed, x = (build.graph.get_rows(n, build.wanted) for n in (mixed, x))
    return _added(build, mixed, x, "attention")


def _one_after_another(build: Build, layer: int, x: Node, mix: Mixer, norms: _Norms) -> Node:
    """Each half adds to what it read."""
    graph, picks = build.graph, build.picks(layer)
    scores = build.linear(x, f"{build.block(layer)}.ffn_gate_inp") if build.hyper.habits.routes_input else None
    normed = _normed(build, x, norms.first)
    mixed = mix(normed)
    if build.hyper.habits.adds_normed:
        x = normed
    if picks == "attention":
        mixed, x = (graph.get_rows(n, build.wanted) for n in (mixed, x))
        scores = scores and graph.get_rows(scores, build.wanted)
    mixed = _normed(build, mixed, norms.after_mixing)
    if picks == "post_norm":
        mixed, x = (graph.get_rows(n, build.wanted) for n in (mixed, x))
    middle = _added(build, mixed, x, "attention")
    if picks == "sum":
        middle = graph.get_rows(middle, build.wanted)
    return _fed(build, layer, x, middle, norms, scores)


def _fed(build: Build, layer: int, x: Node, middle: Node, norms: _Norms, scores: Node | None) -> Node:
    """The second half, with the experts beside a network for all tokens where a layer has both."""
    name = build.block(layer)
    if build.has(f"{name}.ffn_norm_exps.weight"):  # the experts read what the layer read (Arctic)
        both = build.graph.add(dense(build, layer, _normed(build, middle, norms.second)), middle)
        return build.graph.add(experts(build, layer, build.norm(x, f"{name}.ffn_norm_exps")), both)
    normed = _normed(build, middle, norms.second)
    if build.has(f"{name}.post_ffw_norm_1.weight"):
        fed = two_networks(build, layer, middle)
    else:
        fed = feed_forward(build, layer, normed, scores)
    fed = _normed(build, fed, norms.after_feeding)
    if build.picks(layer) == "feed_forward":
        fed, middle = (build.graph.get_rows(n, build.wanted) for n in (fed, middle))
    return _added(build, fed, normed if build.hyper.habits.adds_normed else middle, "feed_forward")


def _added(build: Build, part: Node, residual: Node, half: str) -> Node:
    """What a half says, added to what it read; ggml writes over the first of the two where it can."""
    if build.hyper.scales_residuals and build.hyper.habits.adds_normed:
        residual = build.graph.scale(residual)
    elif build.hyper.scales_residuals:
        part = build.graph.scale(part)
    pair = (residual, part) if build.hyper.habits.residual_first in (half, "both") else (part, residual)
    return build.graph.add(*pair)


def _side_by_side(build: Build, layer: int, x: Node, mix: Mixer, norms: _Norms) -> Node:
    """Both halves read the same, and everything is added in the architecture's order."""
    graph, name = build.graph, build.block(layer)
    normed = build.norm(x, norms.first)
    mixed = mix(build.norm(x, f"{name}.attn_norm_2") if build.has(f"{name}.attn_norm_2.weight") else normed)
    if build.picks(layer):
        mixed, x, normed = (graph.get_rows(n, build.wanted) for n in (mixed, x, normed))
    fed = feed_forward(build, layer, build.norm(x, norms.second) if norms.second else normed)
    parts = {"attention": mixed, "feed_forward": fed, "input": x}
    order = build.hyper.habits.sum_order
    if not order:
        return graph.add(fed, graph.add(mixed, x))
    first, second, third = (parts[part] for part in order)
    return graph.add(graph.add(first, second), third)


def _norms_after_sums(build: Build, layer: int, x: Node, mix: Mixer) -> Node:
    """As the first transformers had it (BERT)."""
    graph, name = build.graph, build.block(layer)
    mixed = mix(x)
    if build.picks(layer):
        mixed, x = (graph.get_rows(n, build.wanted) for n in (mixed, x))
    middle = build.norm(graph.add(mixed, x), f"{name}.attn_output_norm")
    if build.has(f"{name}.attn_norm_2.weight"):
        middle = build.norm(graph.add(middle, x), f"{name}.attn_norm_2")
    fed = feed_forward(build, layer, middle)
    return build.norm(graph.add(fed, middle), f"{name}.layer_output_norm")
