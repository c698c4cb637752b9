"""A transformer: the embeddings of its tokens, its layers with norms and sums, and the logits of the wanted tokens."""

from collections.abc import Callable
from typing import NamedTuple

from unslow.think.memory.llama_cpp.cache import Build
from unslow.think.memory.llama_cpp.feed_forward import dense, experts_output, feed_forward, two_networks
from unslow.think.memory.llama_cpp.graph import Node
from unslow.think.memory.llama_cpp.places import OUTPUT

Mixer = Callable[[Node], Node]  # what lets the tokens of a layer see each other


class Start(NamedTuple):
    """What layers read: the first one `x`, and later ones what else an architecture keeps from the start."""

    x: Node
    rows: Node  # The embeddings as they were looked up
    for_layers: Node | None  # Embeddings of the tokens for each layer: (length, tokens, layers) (Gemma 3n and 4)


class _Norms(NamedTuple):
    """The names of a layer's norms, by what they do; empty where there is none."""

    first: str
    after_mixing: str
    second: str
    after_feeding: str


def embedded_tokens(build: Build) -> Start:
    """The embeddings of the tokens: (width, tokens)."""
    graph, hyper = build.graph, build.hyper
    # Rows of the token table; beside them lie embeddings that an image could give in their place
    images = hyper.blueprint.count("n_deepstack_layers")  # whose embeddings are as many rows longer
    rows = graph.get_rows(build.weight("token_embd.weight"), build.token_numbers)
    if images:
        rows = graph.pad(rows, images * hyper.width)
    graph.expand(rows)
    graph.expand(graph.input("F32", (1 + images) * hyper.width, build.tokens, name="embeddings"))
    if images:
        rows = graph.view(rows, (hyper.width, build.tokens), (rows.strides[1],))
    x = rows
    if hyper.scales_embeddings:
        x = graph.scale(x)
    if not hyper.habits.scales_embeddings:
        graph.expand(x)  # where the file asks for it, llama.cpp scales as a part of looking up
    if build.has("token_types.weight"):
        x = graph.add(x, graph.view(build.weight("token_types.weight"), (hyper.width,)))
    if build.has("position_embd.weight"):
        places = graph.get_rows(build.weight("position_embd.weight"), build.positions)
        x = graph.add(x, places) if hyper.reads_cache else graph.add(places, x)
    if build.has("token_embd_norm.weight") and hyper.last_norm != "token_embd_norm":
        x = build.norm(x, "token_embd_norm")
    if hyper.habits.norms_embeddings:
        x = graph.norm(x)
    return Start(x, rows, _for_layers(build, x) if build.has("per_layer_token_embd.weight") else None)


def _for_layers(build: Build, x: Node) -> Node:
    """A second table, and a product with the embeddings, added up and divided among the layers."""
    graph, layers = build.graph, build.hyper.layers
    tokens = graph.input("I32", build.tokens, name="tokens")
    found = graph.get_rows(build.weight("per_layer_token_embd.weight"), tokens)
    length = found.shape[0] // layers
    found = graph.expand(graph.scale(graph.reshape(found, length, layers, build.tokens)))
    projected = graph.scale(graph.mul_mat(build.weight("per_layer_model_proj.weight"), x))
    projected = build.norm(graph.reshape(projected, length, layers, build.tokens), "per_layer_proj_norm")
    return graph.cont(graph.permute(graph.scale(graph.add(projected, found)), 0, 2, 1, 3))


def embedding_for_layer(build: Build, layer: int, x: Node, for_layers: Node) -> Node:
    """What a layer makes of the embeddings that are its own."""
    graph, name = build.graph, build.block(layer)
    own = graph.view(for_layers, for_layers.shape[:2])
    gate = graph.unary(build.linear(x, f"{name}.inp_gate"))
    return build.norm(build.linear(graph.mul(gate, own), f"{name}.proj"), f"{name}.post_norm")


def transformer_layer(build: Build, layer: int, x: Node, mix: Mixer) -> Node:
    """One layer, in the order that its tensors and its architecture tell."""
    name, norms, hyper = build.block(layer), _norms(build, layer), build.hyper
    feeds = any(build.has(f"{name}.{part}.weight") for part in ("ffn_down", "ffn_down_exps"))
    mixes = hyper.recurrent[layer] or hyper.attends(layer) or build.has(f"{name}.attn_output.weight")
    if not (feeds and mixes):
        # A layer that only mixes tokens (Mamba), or only feeds each forward (some of Nemotron-H)
        mixed = mix(_norm(build, x, norms.first or norms.second))
        if build.picks(layer):
            mixed, x = (build.graph.get_rows(n, build.wanted) for n in (mixed, x))
        return _add_residual(build, mixed, x, "attention")
    if not norms.first and build.has(f"{name}.layer_output_norm.weight"):
        return _norms_after_sums(build, layer, x, mix)
    if hyper.is_parallel or (norms.first and not norms.second):
        return _side_by_side(build, layer, x, mix, norms)
    return _one_after_another(build, layer, x, mix, norms)


def _norms(build: Build, layer: int) -> _Norms:
    """Which norm does what: some files name the second one after the first half."""
    name = build.block(layer)

    def known_norm(*parts: str) -> str:
        norms = (f"{name}.{part}" for part in parts)
        return next((norm for norm in norms if build.has(f"{norm}.weight") or build.has(norm)), "")

    if build.hyper.habits.norms_without_weights:
        return _Norms(f"{name}.attn_norm", "", f"{name}.ffn_norm", "")
    first, second = known_norm("cross_attn_norm", "attn_norm"), known_norm("ffn_norm")
    between = known_norm("post_attention_norm", "attn_output_norm")
    if first and not second:
        second, between = between, ""
    return _Norms(first, between, second, known_norm("post_ffw_norm", "layer_output_norm"))


def _norm(build: Build, x: Node, name: str) -> Node:
    return build.norm(x, name) if name else x


def _one_after_another(build: Build, layer: int, x: Node, mix: Mixer, norms: _Norms) -> Node:
    """Each half adds to what it read."""
    graph, name, picks = build.graph, build.block(layer), build.picks(layer)
    scores = build.linear(x, f"{name}.ffn_gate_inp") if build.hyper.habits.routes_input else None
    normed = _norm(build, x, norms.first)
    mixed = mix(normed)
    if build.hyper.habits.adds_normed:
        x = normed
    if picks == "attention":
        mixed, x = (graph.get_rows(n, build.wanted) for n in (mixed, x))
        scores = scores and graph.get_rows(scores, build.wanted)
    mixed = _norm(build, mixed, norms.after_mixing)
    if picks == "post_norm":
        mixed, x = (graph.get_rows(n, build.wanted) for n in (mixed, x))
    middle = _add_residual(build, mixed, x, "attention")
    if picks == "sum":
        middle = graph.get_rows(middle, build.wanted)
    # The second half, with the experts beside a network for all tokens where a layer has both
    if build.has(f"{name}.ffn_norm_exps.weight"):  # the experts read what the layer read (Arctic)
        both = graph.add(dense(build, layer, _norm(build, middle, norms.second)), middle)
        return graph.add(experts_output(build, layer, build.norm(x, f"{name}.ffn_norm_exps")), both)
    normed = _norm(build, middle, norms.second)
    if build.has(f"{name}.post_ffw_norm_1.weight"):
        fed = two_networks(build, layer, middle)
    else:
        fed = feed_forward(build, layer, normed, scores)
    fed = _norm(build, fed, norms.after_feeding)
    if picks == "feed_forward":
        fed, middle = (graph.get_rows(n, build.wanted) for n in (fed, middle))
    return _add_residual(build, fed, normed if build.hyper.habits.adds_normed else middle, "feed_forward")


def _add_residual(build: Build, part: Node, residual: Node, half: str) -> Node:
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


def end_layer(build: Build, layer: int, x: Node, start: Start) -> Node:
    """The end of a layer, which most have none of."""
    graph, hyper, scale = build.graph, build.hyper, f"{build.block(layer)}.layer_output_scale.weight"
    if start.for_layers is not None:
        x = graph.add(x, embedding_for_layer(build, layer, x, start.for_layers))
    if build.has(scale) and hyper.habits.skips_embeddings:
        rows = graph.get_rows(start.x, build.wanted) if build.picks(layer) else start.x
        x = graph.add(x, graph.mul(rows, build.weight(scale)))
    elif build.has(scale):
        x = graph.mul(x, build.weight(scale))
    if layer < hyper.blueprint.count("n_deepstack_layers"):
        x = graph.add(x, graph.view(start.rows, start.rows.shape[:2], (start.rows.strides[1],)))
    if hyper.ends_loop(layer):
        x = build.norm(x, "output_norm")
    return x


def add_output(build: Build, x: Node) -> None:
    """Add the last nodes; what they give to the host is kept to the end."""
    graph, hyper, habits = build.graph, build.hyper, build.hyper.habits
    if habits.picks_outputs == "layers":
        x.is_output = True  # all tokens are kept for drafts
        x = graph.get_rows(x, build.wanted)
    if hyper.last_norm:
        x = build.norm(x, hyper.last_norm)
    if habits.picks_outputs == "norm":
        x.is_output = True
        x = graph.get_rows(x, build.wanted)
    x.is_output = True
    if not habits.has_output:
        graph.expand(x)
        return
    if habits.scales_last:
        x = graph.scale(x)
    if build.has("output.weight"):
        logits = build.linear(x, "output")
    else:
        place = build.places.tensor("token_embd.weight", OUTPUT) if habits.copies_table else None
        logits = graph.mul_mat(build.weight("token_embd.weight", place), x)
    if hyper.scales_logits:
        logits = graph.scale(logits)
    if hyper.caps_logits:
        logits = graph.scale(graph.unary(graph.scale(logits)))
    missing = build.weight("token_embd.weight").shape[1] - logits.shape[0]
    if habits.pads_logits and missing > 0:
        nothing = graph.scale(graph.view(build.weight("output_norm.weight"), (1,)))
        logits = graph.concat(graph.repeat(nothing, missing, logits.shape[1]), logits, 0)
    if habits.hidden_tokens:
        nothing = graph.clamp(graph.empty("F32", habits.hidden_tokens))
        logits = graph.special("set", logits.shape, logits, nothing)
    logits.is_output = True
    graph.expand(logits)
