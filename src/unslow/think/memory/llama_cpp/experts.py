"""Experts: each token is routed to a few of many networks, and what they say is added up."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node

_SOFTMAX, _SIGMOID, _SOFTMAX_AFTER = 1, 2, 3
"""How a router turns its scores into weights, as `expert_gating_func` counts it."""


def experts(build: Build, layer: int, x: Node, scores: Node | None = None) -> Node:
    """Route each token to its experts, and add up what they say."""
    graph, name = build.graph, f"{build.block(layer)}.ffn"
    width, tokens = x.shape[0], x.shape[1]
    used = build.hyper.experts_used[layer]
    chosen, weights = _routed(build, layer, x, used, scores)
    graph.expand(weights)
    inner = graph.reshape(x, width, 1, tokens)
    weighs_first = build.hyper.habits.weighs_experts_first
    if weighs_first:
        inner = graph.mul(graph.repeat(inner, width, used, tokens), weights)
    inner = _inside(build, layer, inner, chosen)
    result = _expert_linear(build, inner, f"{name}_down_exps", chosen)
    if not weighs_first:
        result = graph.mul(result, weights)
    graph.expand(result)
    return _summed(build, result, used)


def _routed(build: Build, layer: int, x: Node, used: int, scores: Node | None) -> tuple[Node, Node]:
    """The chosen experts of each token, and their weights."""
    graph, hyper, name = build.graph, build.hyper, build.block(layer)
    tokens = x.shape[1]
    scores = build.linear(x, f"{name}.ffn_gate_inp") if scores is None else scores
    function = hyper.gating
    probabilities = scores
    if function == _SOFTMAX:
        probabilities = graph.soft_max(scores)
    elif function == _SIGMOID:
        probabilities = graph.unary(scores)
    selection = probabilities
    bias = next((b for b in (f"{name}.exp_probs_b.bias", f"{name}.exp_probs_b") if build.has(b)), "")
    if bias:
        selection = graph.add(probabilities, build.weight(bias))
    if hyper.habits.weighs_experts_first:
        selection = scores
    if hyper.blueprint.count("expert_group_count") > 1:
        selection = _best_groups(build, selection, tokens)
    chosen = graph.top_rows(selection, used)
    weights = graph.get_rows(graph.reshape(probabilities, 1, hyper.experts, tokens), chosen)
    if function == _SOFTMAX_AFTER:
        weights = graph.reshape(graph.soft_max(graph.reshape(weights, used, tokens)), 1, used, tokens)
    if hyper.normalises_weights:
        flat = graph.reshape(weights, used, tokens)
        total = graph.clamp(graph.sum_rows(flat))
        weights = graph.reshape(graph.binary("div", flat, total), 1, used, tokens)
    if hyper.scales_weights:
        weights = graph.scale(weights)
    return chosen, weights


def _best_groups(build: Build, selection: Node, tokens: int) -> Node:
    """With everything masked out that is not in one of the best groups of experts."""
    graph, number = build.graph, build.hyper.blueprint.count
    groups, used = number("expert_group_count"), number("expert_group_used_count")
    size = build.hyper.experts // groups
    grouped = graph.reshape(selection, size, groups, tokens)
    best = graph.get_rows(graph.reshape(grouped, 1, size, groups, tokens), graph.top_rows(grouped, 2))
    totals = graph.sum_rows(graph.reshape(best, 2, groups, tokens))
    picked = graph.top_rows(graph.reshape(totals, groups, tokens), used)
    kept = graph.get_rows(grouped, picked)
    masked = graph.set_rows(graph.unary(grouped, "fill"), kept, picked)
    return graph.reshape(masked, build.hyper.experts, tokens)


def _inside(build: Build, layer: int, x: Node, chosen: Node) -> Node:
    """The experts' gate and up matrices and their activation."""
    graph, name = build.graph, f"{build.block(layer)}.ffn"
    if build.has(f"{name}_gate_up_exps.weight"):
        both = _expert_linear(build, x, f"{name}_gate_up_exps", chosen)
        half = both.shape[0] // 2
        parts = [graph.view(both, (half, *both.shape[1:3]), both.strides[1:3]) for _ in range(2)]
        return graph.glu(*parts)
    up = _expert_linear(build, x, f"{name}_up_exps", chosen)
    if build.has(f"{name}_gate_exps.weight"):
        gate = _expert_linear(build, x, f"{name}_gate_exps", chosen)
        return graph.gated(gate, up, clamps=build.hyper.clamps("exp", layer))
    inner = graph.unary(up)
    return graph.unary(inner, "sqr") if build.hyper.habits.squares else inner


def _expert_linear(build: Build, x: Node, name: str, chosen: Node) -> Node:
    product = build.graph.mul_mat_id(build.weight(f"{name}.weight"), x, chosen)
    if build.has(f"{name}.bias"):
        product = build.graph.add_id(product, build.weight(f"{name}.bias"), chosen)
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
