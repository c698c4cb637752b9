"""The second half of a layer: one network for all tokens, or experts that a router chooses for each."""

from unslow.think.memory.llama_cpp.cache import Build
from unslow.think.memory.llama_cpp.graph import Node, UnknownLayoutError

_SOFTMAX, _SIGMOID, _SOFTMAX_AFTER, _ROOT_OF_SOFTPLUS = 1, 2, 3, 4  # How scores become weights (`expert_gating_func`)


def feed_forward(build: Build, layer: int, x: Node, scores: Node | None = None) -> Node:
    """Whatever the layer's tensors say that it has; a router's scores may come from elsewhere."""
    name, graph = build.block(layer), build.graph
    if not build.has(f"{name}.ffn_gate_inp.weight"):
        return dense(build, layer, x)
    result = _expert_output(build, layer, x, scores)
    if build.has(f"{name}.ffn_up_shexp.weight"):
        shared = dense(build, layer, x, "_shexp")  # the expert that every token uses, gated where it has a gate
        if build.has(f"{name}.ffn_gate_inp_shexp.weight"):
            score = build.linear(x, f"{name}.ffn_gate_inp_shexp")
            gate = graph.unary(score)
            if build.hyper.habits.divides_shared_gate:
                gate = graph.binary("div", gate, score)
            shared = graph.mul(shared, gate)
        result = graph.add(result, shared)
        return graph.scale(result) if build.hyper.habits.scales_shared_sum else result
    if build.hyper.habits.mixes_dense and build.has(f"{name}.ffn_up.weight"):
        return graph.scale(graph.add(dense(build, layer, x), result))
    return result


def dense(build: Build, layer: int, x: Node, suffix: str = "") -> Node:
    """A network of two or three matrices."""
    name, graph = f"{build.block(layer)}.ffn", build.graph
    up = build.linear(x, f"{name}_up{suffix}")
    if build.has(f"{name}_gate{suffix}.weight"):
        inner = gated_activation(build, layer, build.linear(x, f"{name}_gate{suffix}"), up, "shexp")
    elif build.weight(f"{name}_down{suffix}.weight").shape[0] * 2 == up.shape[0]:
        inner = graph.glu(up)
    else:
        inner, scales = graph.unary(up), f"{name}.act.scales"
        if build.has(scales):
            inner = graph.binary("div", inner, build.weight(scales))
        elif build.hyper.habits.squares:
            inner = graph.unary(inner, "sqr")
    if build.has(f"{name}_sub_norm.weight"):
        inner = build.norm(inner, f"{name}_sub_norm")
    return build.linear(inner, f"{name}_down{suffix}")


def gated_activation(build: Build, layer: int, gate: Node, up: Node, what: str) -> Node:
    """The inner values of a layer's experts (`exp`), or of its other network (`shexp`)."""
    graph, number = build.graph, build.hyper.blueprint.number
    if number("activation.situ_beta"):  # squashed by a hyperbolic tangent, the gate or both (Kimi K3)
        squashed_gate, squashed_up = (graph.scale(graph.unary(graph.scale(x))) for x in (gate, up))
        both = number("activation.situ_linear_beta") > 0
        return graph.mul(graph.mul(squashed_gate, graph.unary(gate)), squashed_up if both else up)
    if not build.hyper.clamps(what, layer):
        return graph.glu(gate, up)
    if build.hyper.habits.clamps_first:
        return graph.glu(graph.clamp(gate), graph.clamp(up))
    return graph.mul(graph.clamp(graph.unary(gate)), graph.clamp(up))  # no longer one kernel


def _expert_output(build: Build, layer: int, x: Node, scores: Node | None) -> Node:
    """What the experts say; some read and answer in a narrower space (Nemotron 3 Super, Kimi K3)."""
    graph, name = build.graph, f"{build.block(layer)}.ffn"
    if build.has(f"{name}_up_chexps.weight"):  # then smaller ones that whole groups of them share (GroveMoE)
        scores = build.linear(x, f"{name}_gate_inp")
        first = experts_output(build, layer, x, scores)
        return graph.add(first, graph.scale(experts_output(build, layer, first, scores, "chexps")))
    space = next((s for s in ("latent", "routed") if build.has(f"{name}_{s}_down.weight")), "")
    if not space:
        return experts_output(build, layer, x, scores)
    narrow = build.linear(x, f"{name}_{space}_down")
    answer = experts_output(build, layer, narrow, scores or build.linear(x, f"{name}_gate_inp"))
    if build.has(f"{name}_{space}_norm.weight"):
        answer = build.norm(answer, f"{name}_{space}_norm")
    return build.linear(answer, f"{name}_{space}_up")


def two_networks(build: Build, layer: int, x: Node) -> Node:
    """A network for all tokens and experts beside it, each with norms of its own (Gemma 4)."""
    graph, name = build.graph, build.block(layer)
    for_all = build.norm(dense(build, layer, build.norm(x, f"{name}.ffn_norm")), f"{name}.post_ffw_norm_1")
    routed = graph.mul(graph.scale(graph.norm(x)), build.weight(f"{name}.ffn_gate_inp.scale"))
    scores = graph.mul_mat(build.weight(f"{name}.ffn_gate_inp.weight"), routed)
    chosen = experts_output(build, layer, build.norm(x, f"{name}.pre_ffw_norm_2"), scores)
    return graph.add(for_all, build.norm(chosen, f"{name}.post_ffw_norm_2"))


def experts_output(build: Build, layer: int, x: Node, scores: Node | None = None, kind: str = "exps") -> Node:
    """Route each token to its experts, or to those of another kind, and add up what they say."""
    graph, name = build.graph, build.block(layer)
    width, tokens = x.shape[0], x.shape[1]
    down = f"{name}.ffn_down_{kind}"
    count = build.weight(f"{down}.weight").shape[2]
    used = min(build.hyper.experts_used[layer], count)
    if used < 1:
        raise UnknownLayoutError(f"layer {layer} has experts but uses none")
    scores = build.linear(x, f"{name}.ffn_gate_inp") if scores is None else scores
    chosen, weights = route_tokens(build, layer, scores, used, by_groups=count < scores.shape[0])
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
    # The experts' results added one after the other
    width, _, tokens = result.shape[:3]
    parts = [graph.expand(graph.view(result, (width, tokens), (result.strides[2],))) for _ in range(used)]
    total = parts[0]
    for part in parts[1:]:
        total = graph.expand(graph.add(total, part))
    return graph.cont(total) if used == 1 else total


def route_tokens(build: Build, layer: int, scores: Node, used: int, *, by_groups: bool = False) -> tuple[Node, Node]:
    """The chosen experts of each token (used, tokens), and their weights; or, of those, the groups that they are in."""
    graph, hyper = build.graph, build.hyper
    probabilities = scores
    if hyper.gating == _SOFTMAX:
        probabilities = graph.soft_max(scores)
    elif hyper.gating == _ROOT_OF_SOFTPLUS:
        probabilities = graph.unary(graph.unary(scores), "sqrt")
    elif hyper.gating == _SIGMOID:
        probabilities = graph.unary(scores)
    table = f"{build.block(layer)}.ffn_gate_tid2eid.weight"
    if build.has(table):  # each token has its experts (DeepSeek 4)
        chosen = graph.get_rows(build.weight(table), build.token_numbers)
    else:
        chosen = graph.top_rows(_selection(build, layer, scores, probabilities), used)
    if by_groups:
        chosen = graph.cast(graph.scale(graph.cast(chosen, "F32")), "I32")
    # The probabilities of the chosen experts: (1, used, tokens)
    experts, tokens = probabilities.shape[:2]
    used = chosen.shape[0]
    weights = graph.get_rows(graph.reshape(probabilities, 1, experts, tokens), chosen)
    if hyper.gating == _SOFTMAX_AFTER:
        weights = graph.reshape(graph.soft_max(graph.reshape(weights, used, tokens)), 1, used, tokens)
    if hyper.normalises_weights:
        flat = graph.reshape(weights, used, tokens)
        total = graph.clamp(graph.sum_rows(flat))
        weights = graph.reshape(graph.binary("div", flat, total), 1, used, tokens)
    return chosen, graph.scale(weights) if hyper.scales_weights else weights


def _selection(build: Build, layer: int, scores: Node, probabilities: Node) -> Node:
    """What experts are chosen by: their probabilities, with a bias that balances how often each is used."""
    name, graph, number = build.block(layer), build.graph, build.hyper.blueprint.count
    selection = probabilities
    if bias := next((b for b in (f"{name}.exp_probs_b.bias", f"{name}.exp_probs_b") if build.has(b)), ""):
        selection = graph.add(probabilities, build.weight(bias))
    if build.hyper.habits.weighs_experts_first:
        selection = scores
    if build.hyper.habits.selects_by_sigmoid:
        selection = graph.unary(scores)
    groups, used = number("expert_group_count"), number("expert_group_used_count")
    if groups <= 1:
        return selection
    # Everything is masked out that is not in one of the best groups of experts
    experts, tokens = selection.shape[:2]
    size = experts // groups
    grouped = graph.reshape(selection, size, groups, tokens)
    best = graph.get_rows(graph.reshape(grouped, 1, size, groups, tokens), graph.top_rows(grouped, 2))
    totals = graph.sum_rows(graph.reshape(best, 2, groups, tokens))
    picked = graph.top_rows(graph.reshape(totals, groups, tokens), used)
    kept = graph.get_rows(grouped, picked)
    masked = graph.set_rows(graph.unary(grouped, "fill"), kept, picked)
    return graph.reshape(masked, experts, tokens)


def _inside(build: Build, layer: int, x: Node, chosen: Node, kind: str) -> Node:
    graph, name = build.graph, f"{build.block(layer)}.ffn"
    if build.has(f"{name}_gate_up_{kind}.weight"):
        both = _expert_linear(build, x, f"{name}_gate_up_{kind}", chosen)
        half = both.shape[0] // 2
        parts = [graph.view(both, (half, *both.shape[1:3]), both.strides[1:3]) for _ in range(2)]
        return graph.glu(*parts)
    up = _expert_linear(build, x, f"{name}_up_{kind}", chosen)
    if build.has(f"{name}_gate_{kind}.weight"):
        gate = _expert_linear(build, x, f"{name}_gate_{kind}", chosen)
        return gated_activation(build, layer, gate, up, "exp")
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
        product = graph.special("add_id", product.shape, product, build.weight(f"{name}.bias"), chosen)
    return product
