"""Attention: queries, keys and values with their rotary positions, their product, and what a layer makes of it."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.cache import Build, CacheInputs, store_in_cache
from unslow.think.memory.llama_cpp.graph import Node, row_bytes
from unslow.think.memory.llama_cpp.hyperparameters import Hyper


class Heads(NamedTuple):
    """Queries, keys and values of the new tokens: (length, heads, tokens); without keys, a layer reads another's."""

    query: Node
    key: Node | None
    value: Node | None
    gate: Node | None = None  # What the result is multiplied by (Qwen3-Next)


class Extras(NamedTuple):
    """What only some models add to attention."""

    value_matrix: Node | None = None  # Brings compressed values back to a head's own, in latent attention
    picked: Node | None = None  # The places in the cache that each query sees; none for all
    score_bias: Node | None = None  # Added to the scores, such as a bias for each distance; no kernel can do that


NO_EXTRAS = Extras()


def heads_of(build: Build, layer: int, x: Node) -> Heads:
    """All of them, ready for attention: with norms, rotary positions, and what scales the queries."""
    graph, habits = build.graph, build.hyper.habits
    query, key, value, gate = plain_heads(build, layer, x)
    query = _norm_and_rotate(build, layer, query, "q")
    query = temper_queries(build, layer, graph.scale(query) if habits.scales_queries else query)
    key = key and _norm_and_rotate(build, layer, key, "k")
    if value is not None and habits.norms_values:
        value = graph.norm(value)
    return Heads(query, key, value, gate)


def plain_heads(build: Build, layer: int, x: Node) -> Heads:
    """Queries, keys and values by one product each, or by one for all."""
    name, hyper, graph = build.block(layer), build.hyper, build.graph
    length, heads, kv_heads = hyper.key_length(layer), hyper.heads[layer], hyper.kv_heads[layer]
    shapes = (length, heads), (length, kv_heads), (hyper.value_length(layer), kv_heads)
    if build.has(f"{name}.attn_qkv.weight"):
        joined = build.linear(x, f"{name}.attn_qkv")
        joined = graph.clamp(joined) if hyper.clamps_heads else joined
        row = joined.strides[1]
        return Heads(*(graph.view(joined, (n, h, build.tokens), (row_bytes("F32", n), row)) for n, h in shapes))
    query = _projection(build, layer, x, "q")
    if layer >= hyper.layers_with_cache:
        return Heads(graph.reshape(query, length, heads, build.tokens), None, None)
    key = _projection(build, layer, x, "k")
    value = _projection(build, layer, x, "v") if build.has(f"{name}.attn_v.weight") else key
    key, value = (graph.reshape(p, *s, build.tokens) for p, s in zip((key, value), shapes[1:], strict=True))
    if query.shape[0] == 2 * length * heads:
        # Each head's query and the gate of its result come from one product, side by side
        joined, step = query, row_bytes("F32", 2 * length)
        query, gate = (graph.view(joined, (length, heads, build.tokens), (step, step * heads)) for _ in range(2))
        return Heads(query, key, value, graph.cont(gate, length * heads, build.tokens))
    return Heads(graph.reshape(query, length, heads, build.tokens), key, value)


def _projection(build: Build, layer: int, x: Node, part: str) -> Node:
    """One of the products, normed before it is divided into heads where the norm is that of all heads together."""
    name = f"{build.block(layer)}.attn_{part}"
    product = build.linear(x, name)
    if build.hyper.clamps_heads:
        product = build.graph.clamp(product)
    if _norms_all_heads(build, layer, f"{name}_norm"):
        product = build.norm(product, f"{name}_norm")
    return product


def _norms_all_heads(build: Build, layer: int, name: str) -> bool:
    if not build.has(f"{name}.weight"):
        return False
    shape = build.hyper.blueprint.by_name[f"{name}.weight"].shape
    return len(shape) == 1 and shape[0] > build.hyper.key_length(layer)


def _norm_and_rotate(build: Build, layer: int, x: Node, part: str) -> Node:
    """Normed and turned by the positions, in the order that the architecture has."""
    hyper, turns_here = build.hyper, has_rope(build.hyper, layer)
    if not hyper.habits.norms_after_rope:
        x = _norm_heads(build, layer, x, part)
    if turns_here:
        x = turned_by_rope(build, layer, x)
    if hyper.habits.norms_after_rope:
        x = _norm_heads(build, layer, x, part)
    return build.graph.norm(x) if turns_here and hyper.norms_turned_heads else x


def _norm_heads(build: Build, layer: int, x: Node, part: str) -> Node:
    """Head by head; some models have a weight for queries only."""
    name = f"{build.block(layer)}.attn_{part}_norm"
    if _norms_all_heads(build, layer, name):
        return x
    if build.has(f"{name}.weight"):
        return build.norm(x, name, build.hyper.habits.head_norm)
    bare = build.hyper.habits.norms_without_weights and build.has(f"{build.block(layer)}.attn_q_norm.weight")
    return build.graph.norm(x) if bare else x


def temper_queries(build: Build, layer: int, query: Node) -> Node:
    """Queries times a factor that grows with the position: in layers that don't turn (Llama 4), or in all."""
    if build.hyper.tempers or (build.hyper.habits.tempers_unturned and not has_rope(build.hyper, layer)):
        return build.graph.mul(query, build.shared_input("F32", 1, 1, build.tokens, name="temperatures"))
    return query


def turned_by_rope(build: Build, layer: int, x: Node) -> Node:
    """Turned by the positions of the tokens."""
    # What the frequencies are divided by, chosen by the context; each device has its own copy
    hyper, factors = build.hyper, None
    users = hyper.habits.rope_factors
    if users != "none" and not (users == "no_windows" and hyper.layer_windows[layer]):
        trained = hyper.blueprint.count("context_length")
        original = hyper.blueprint.count("rope.scaling.original_context_length", trained)
        length = "long" if build.settings.slot_context > original else "short"
        names = ("rope_freqs.weight", f"rope_factors_{length}.weight")
        name = next((name for name in names if build.has(name)), "")
        factors = build.weight(name, build.places.tensor(name, layer)) if name else None
    return build.graph.rope(x, build.positions, factors)


def has_rope(hyper: Hyper, layer: int) -> bool:
    """Whether a layer turns queries and keys; some know no places, or learn them otherwise."""
    habits, blueprint = hyper.habits, hyper.blueprint
    by_layer = hyper.rope_pattern[layer]
    skipped = habits.rope_skips > 0 and (layer + 1) % habits.rope_skips == 0
    other_model = habits.rope_model_layers not in (0, hyper.all_layers)
    if not by_layer or skipped or other_model:
        return False
    match habits.rope:
        case "windows":
            return not hyper.window or hyper.layer_windows[layer]
        case "windows_or_dense":
            return hyper.layer_windows[layer] or layer < hyper.leading_dense
        case "unless_untrained":
            return bool(blueprint.number("rope.scaling.finetuned", default=True))
        case kind:
            return kind == "all"


def attend(build: Build, layer: int, heads: Heads, inputs: CacheInputs, extras: Extras = NO_EXTRAS) -> Node:
    """Attend to all that the cache holds after keys and values were written to it: (heads x length, tokens)."""
    graph = build.graph
    query, key, value, gate = rotated_for_cache(build, heads, inputs)
    keys_first = (build.hyper.window and not build.hyper.is_latent) or not build.hyper.reads_cache
    for node in (query, key, value) if keys_first else (query, value, key):
        if node is not None:
            graph.expand(node)
    keys, values = store_in_cache(build, layer, key, value, inputs)
    mask = inputs.mask if extras.picked is None else mask_of_picked(build, extras.picked, inputs.mask)
    result = attention_product(build, layer, query, keys, values, mask, extras)
    if inputs.value_rotation is not None:
        result = hadamard(build, result, inputs.value_rotation)
    return result if gate is None else graph.mul(result, graph.unary(gate))


def rotated_for_cache(build: Build, heads: Heads, inputs: CacheInputs) -> Heads:
    """The same with queries, keys and values rotated, where the cache asks for it."""
    query, key, value, gate = heads
    if inputs.key_rotation is not None:
        query = hadamard(build, query, inputs.key_rotation)
        key = key and hadamard(build, key, inputs.key_rotation)
    if inputs.value_rotation is not None:
        value = value and hadamard(build, value, inputs.value_rotation)
    return Heads(query, key, value, gate)


def hadamard(build: Build, x: Node, rotation: Node) -> Node:
    """Rotated by a Hadamard matrix, which quantised caches lose less with."""
    size, graph = rotation.shape[0], build.graph
    rows = x.elements // size
    flat = graph.reshape(x, size, rows) if x.is_contiguous else graph.cont(x, size, rows)
    return graph.reshape(graph.mul_mat(rotation, flat), *x.shape)


def mask_of_picked(build: Build, picked: Node, mask: Node, kind: str = "F32") -> Node:
    """A mask that hides all but the picked tokens, and what was hidden before."""
    graph = build.graph
    count, tokens, _, streams = picked.shape
    cells, element = mask.shape[0], mask.strides[0]
    hidden = graph.unary(mask, "fill")
    hidden = graph.view(hidden, (1, cells, tokens, streams), (element, hidden.strides[1], hidden.strides[2]))
    places = graph.view(picked, (count, tokens, streams), (picked.strides[1], picked.strides[2]))
    shown = graph.unary(graph.empty(kind, 1, count, tokens, streams), "fill")
    masked = graph.set_rows(hidden, shown, places)
    row, stream = masked.strides[2], masked.strides[3]
    return graph.add(graph.view(masked, (cells, tokens, 1, streams), (row, stream, stream)), mask)


def attention_product(
    build: Build, layer: int, query: Node, keys: Node, values: Node, mask: Node, extras: Extras = NO_EXTRAS
) -> Node:
    """Each query's mean of the values, weighed by its scores: (heads x length, tokens)."""
    graph = build.graph
    streams = keys.shape[3]
    length, heads, tokens = query.shape[:3]
    per_stream = tokens // streams
    strides = (query.strides[1], query.strides[2], query.strides[2] * per_stream)
    query = graph.view(query, (length, heads, per_stream, streams), strides)
    transposed = values.strides[1] > values.strides[2]
    query, keys, values = (graph.permute(n, 0, 2, 1, 3) for n in (query, keys, values))
    name = f"{build.block(layer)}.attn_sinks.weight"
    sinks = build.weight(name) if build.has(name) else None
    if build.kernels.flash_attention and extras.score_bias is None:
        keys, values = (graph.cast(n, "F16") if n.kind == "F32" else n for n in (keys, values))
        result = graph.flash_attn(query, keys, values, mask, sinks)
        build.fused.append((layer, result))
        if extras.value_matrix is not None:
            result = graph.mul_mat(extras.value_matrix, graph.permute(result, 0, 2, 1, 3))
            result = graph.cont(graph.permute(result, 0, 2, 1, 3))
        a, b, c, d = result.shape
        return graph.expand(graph.reshape(result, a * b, c * d))
    if not transposed:
        values = graph.cont(graph.transpose(values))
    # Scores, softmax and sum one after the other; the scores of all heads are the largest tensor by far
    scores = graph.mul_mat(keys, query)
    if build.hyper.habits.caps_scores:
        scores = graph.scale(graph.unary(graph.scale(scores)))
    if extras.score_bias is not None:
        scores = graph.add(scores, extras.score_bias)
    result = graph.mul_mat(values, graph.soft_max(scores, mask, sinks))
    if extras.value_matrix is not None:
        result = graph.mul_mat(extras.value_matrix, result)
    result = graph.permute(result, 0, 2, 1, 3)
    a, b, c, d = result.shape
    return graph.expand(graph.cont(result, a * b, c * d))


def attention_output(build: Build, layer: int, x: Node, result: Node) -> Node:
    """What a layer says after attention: normed and gated where it has tensors for that, then brought to its width."""
    name, graph = build.block(layer), build.graph
    if build.has(f"{name}.attn_sub_norm.weight"):
        result = build.norm(result, f"{name}.attn_sub_norm")
    if build.has(f"{name}.attn_gate.weight"):
        gate, heads, (width, tokens) = build.linear(x, f"{name}.attn_gate"), build.hyper.heads[layer], result.shape[:2]
        if gate.shape[0] != heads:
            result = graph.mul(result, graph.unary(gate))
        else:  # one number for each head
            by_head = graph.reshape(result, width // heads, heads, tokens)
            if build.hyper.is_latent and any(build.hyper.recurrent):  # Ling 3
                result = graph.mul(by_head, graph.unary(graph.reshape(gate, 1, heads, tokens)))
                result = graph.cont(result, width, tokens)
            else:
                result = graph.mul(by_head, graph.reshape(graph.unary(gate), 1, heads, tokens))
                result = graph.reshape(result, width, tokens)
    result = build.linear(result, f"{name}.attn_{'o' if build.has(f'{name}.attn_o.weight') else 'output'}")
    return graph.scale(result) if build.hyper.scales_values else result


class CrossAttention:
    """The second attention of each layer; llama.cpp reserves as much as the longest input of the model takes."""

    def __init__(self, build: Build) -> None:
        length = build.hyper.blueprint.count("context_length")
        kind = "F16" if build.kernels.flash_attention else "F32"
        self._encoded = build.graph.input("F32", build.hyper.width, length, name="encoded")
        self._mask = build.graph.input(kind, length, build.tokens, name="mask of the encoded")
        self._build = build

    def attend(self, layer: int, x: Node) -> Node:
        """What a layer takes from the encoder's words."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        hyper, length = build.hyper, self._encoded.shape[1]
        query, key, value = (
            graph.expand(graph.reshape(build.linear(read, f"{name}.cross_attn_{part}"), *shape))
            for part, read, shape in (
                ("q", x, (hyper.key_length(layer), hyper.heads[layer], build.tokens)),
                ("k", self._encoded, (hyper.key_length(layer), hyper.kv_heads[layer], length)),
                ("v", self._encoded, (hyper.value_length(layer), hyper.kv_heads[layer], length)),
            )
        )
        result = attention_product(build, layer, query, key, value, self._mask)
        return build.linear(result, f"{name}.cross_attn_o")
