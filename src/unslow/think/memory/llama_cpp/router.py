"""The router of a layer with experts: which of them each token goes to, and how much each counts."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node

_SOFTMAX, _SIGMOID, _SOFTMAX_AFTER, _ROOT_OF_SOFTPLUS = 1, 2, 3, 4
"""How scores become weights, as `expert_gating_func` counts it."""


def routed(build: Build, layer: int, scores: Node, used: int, *, by_groups: bool = False) -> tuple[Node, Node]:
    """The chosen experts of each token (used, tokens), and their weights; or, of those, the groups that they are in."""
    graph = build.graph
    probabilities = _probabilities(build, scores)
    table = f"{build.block(layer)}.ffn_gate_tid2eid.weight"
    if build.has(table):  # each token has its experts (DeepSeek 4)
        chosen = graph.get_rows(build.weight(table), build.token_numbers)
    else:
        chosen = graph.top_rows(_selection(build, layer, scores, probabilities), used)
    if by_groups:
        chosen = graph.cast(graph.scale(graph.cast(chosen, "F32")), "I32")
    return chosen, _weights(build, probabilities, chosen)


def _probabilities(build: Build, scores: Node) -> Node:
    if build.hyper.gating == _SOFTMAX:
        return build.graph.soft_max(scores)
    if build.hyper.gating == _ROOT_OF_SOFTPLUS:
        return build.graph.unary(build.graph.unary(scores), "sqrt")
    return build.graph.unary(scores) if build.hyper.gating == _SIGMOID else scores


def _selection(build: Build, layer: int, scores: Node, probabilities: Node) -> Node:
    """What experts are chosen by: their probabilities, with a bias that balances how often each is used."""
    name, habits = build.block(layer), build.hyper.habits
    selection = probabilities
    bias = next((b for b in (f"{name}.exp_probs_b.bias", f"{name}.exp_probs_b") if build.has(b)), "")
    if bias:
        selection = build.graph.add(probabilities, build.weight(bias))
    if habits.weighs_experts_first:
        selection = scores
    if habits.selects_by_sigmoid:
        selection = build.graph.unary(scores)
    return _best_groups(build, selection) if build.hyper.blueprint.count("expert_group_count") > 1 else selection


def _best_groups(build: Build, selection: Node) -> Node:
    """With everything masked out that is not in one of the best groups of experts."""
    graph, number = build.graph, build.hyper.blueprint.count
    groups, used = number("expert_group_count"), number("expert_group_used_count")
    experts, tokens = selection.shape[:2]
    size = experts // groups
    grouped = graph.reshape(selection, size, groups, tokens)
    best = graph.get_rows(graph.reshape(grouped, 1, size, groups, tokens), graph.top_rows(grouped, 2))
    totals = graph.sum_rows(graph.reshape(best, 2, groups, tokens))
    picked = graph.top_rows(graph.reshape(totals, groups, tokens), used)
    kept = graph.get_rows(grouped, picked)
    masked = graph.set_rows(graph.unary(grouped, "fill"), kept, picked)
    return graph.reshape(masked, experts, tokens)


def _weights(build: Build, probabilities: Node, chosen: Node) -> Node:
    """The probabilities of the chosen experts: (1, used, tokens)."""
    graph, hyper = build.graph, build.hyper
    experts, tokens = probabilities.shape[:2]
    used = chosen.shape[0]
    weights = graph.get_rows(graph.reshape(probabilities, 1, experts, tokens), chosen)
    if hyper.gating == _SOFTMAX_AFTER:
        weights = graph.reshape(graph.soft_max(graph.reshape(weights, used, tokens)), 1, used, tokens)
    if hyper.normalises_weights:
        flat = graph.reshape(weights, used, tokens)
        total = graph.clamp(graph.sum_rows(flat))
        weights = graph.reshape(graph.binary("div", flat, total), 1, used, tokens)
    return graph.scale(weights) if hyper.scales_weights else weights
