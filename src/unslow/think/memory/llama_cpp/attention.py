"""Attention: the product of queries, keys and values, over a cache or over the tokens of the batch alone."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.cache import cells_of
from unslow.think.memory.llama_cpp.heads import Heads
from unslow.think.memory.llama_cpp.node import Node, block_of, row_bytes

_ROTATION = 64
"""The smallest matrix that quantised keys and values are rotated with."""


class CacheInputs(NamedTuple):
    """What the host tells a kind of cache before each computation."""

    mask: Node
    key_rows: Node | None = None
    value_rows: Node | None = None
    key_rotation: Node | None = None
    value_rotation: Node | None = None


class Extras(NamedTuple):
    """What only some models add to attention."""

    value_matrix: Node | None = None
    """Brings compressed values back to a head's own, in latent attention."""
    picked: Node | None = None
    """The places in the cache that each query sees; none for all."""
    score_bias: Node | None = None
    """Added to the scores, such as a bias for each distance; no kernel can do that."""


_NOTHING = Extras()


def cache_inputs(build: Build, layer: int) -> CacheInputs:
    """The inputs of the cache that this layer and all of its kind use."""
    hyper, settings, graph = build.hyper, build.settings, build.graph
    kind, tokens = "F16" if build.kernels.flash_attention else "F32", build.tokens
    if not hyper.reads_cache:
        return CacheInputs(graph.input(kind, tokens, tokens, name="mask"))
    value_rows = None
    if not hyper.is_latent and not hyper.is_compressed:
        width = hyper.widest_values if settings.transposes_values else 1
        value_rows = graph.input("I64", tokens * width, name="value rows")
    return CacheInputs(
        mask=mask_input(build, layer, kind),
        key_rows=graph.input("I64", tokens, name="key rows"),
        value_rows=value_rows,
        key_rotation=_key_rotation(build, layer),
        value_rotation=_value_rotation(build, layer),
    )


def mask_input(build: Build, layer: int, kind: str) -> Node:
    """Which tokens of the cache each new one sees."""
    streams = build.settings.streams
    cells = cells_of(build.hyper, build.settings, layer)
    return build.graph.input(kind, cells, build.tokens // streams, 1, streams, name="mask")


def distance_bias(build: Build, table: Node, distances: Node) -> Node:
    """A bias for each head and each pair of tokens, by how far these are from each other: (cells, tokens, heads)."""
    graph = build.graph
    cells, tokens = distances.shape[:2]
    found = graph.get_rows(table, graph.reshape(distances, cells * tokens))
    return graph.cont(graph.permute(graph.reshape(found, found.shape[0], cells, tokens), 2, 0, 1, 3))


def _key_rotation(build: Build, layer: int) -> Node | None:
    hyper = build.hyper
    if hyper.is_latent or not _can_rotate(build, layer, "key"):
        return None
    return rotation_input(build, hyper.key_length(layer))


def rotation_input(build: Build, length: int, *, always: bool = False) -> Node | None:
    """A matrix that keys of this length are rotated with, where they are quantised."""
    if not always and block_of(build.settings.key_type)[0] == 1:
        return None
    size = length & -length  # the largest power of two that divides it
    return build.graph.input("F32", size, size, name="key rotation")


def _value_rotation(build: Build, layer: int) -> Node | None:
    quantised = block_of(build.settings.value_type)[0] > 1
    if build.hyper.is_latent or not quantised or not _can_rotate(build, layer, "value"):
        return None
    return build.graph.input("F32", _ROTATION, _ROTATION, name="value rotation")


def _can_rotate(build: Build, layer: int, what: str) -> bool:
    """Whether all heads of this cache are equally long, and those of the first layer are of a fitting length."""
    hyper = build.hyper
    if hyper.window and any(hyper.recurrent):
        return False  # llama.cpp has no rotation for such a pair of caches beside states
    length_of = hyper.key_length if what == "key" else hyper.value_length
    kin = [il for il in range(hyper.all_layers) if hyper.has_own_cache(il) and hyper.attends(il)]
    lengths = {length_of(il) for il in kin if hyper.windowed[il] == hyper.windowed[layer]}
    return len(lengths) == 1 and length_of(0) % _ROTATION == 0


def attended(build: Build, layer: int, heads: Heads, inputs: CacheInputs, extras: Extras = _NOTHING) -> Node:
    """Attend to all that the cache holds after keys and values were written to it: (heads x length, tokens)."""
    graph = build.graph
    query, key, value, gate = heads
    if inputs.key_rotation is not None:
        query = hadamard(build, query, inputs.key_rotation)
        key = key and hadamard(build, key, inputs.key_rotation)
    if inputs.value_rotation is not None:
        value = value and hadamard(build, value, inputs.value_rotation)
    keys_first = (build.hyper.window and not build.hyper.is_latent) or not build.hyper.reads_cache
    for node in (query, key, value) if keys_first else (query, value, key):
        if node is not None:
            graph.expand(node)
    keys, values = stored(build, layer, key, value, inputs)
    mask = inputs.mask if extras.picked is None else only(build, extras.picked, inputs.mask)
    result = product(build, layer, Operands(query, keys, values, mask), extras)
    if inputs.value_rotation is not None:
        result = hadamard(build, result, inputs.value_rotation)
    return result if gate is None else graph.mul(result, graph.unary(gate))


def only(build: Build, picked: Node, mask: Node, kind: str = "F32") -> Node:
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


def hadamard(build: Build, x: Node, rotation: Node) -> Node:
    """Rotated by a Hadamard matrix, which quantised caches lose less with."""
    size, graph = rotation.shape[0], build.graph
    rows = x.elements // size
    flat = graph.reshape(x, size, rows) if x.is_contiguous else graph.cont(x, size, rows)
    return graph.reshape(graph.mul_mat(rotation, flat), *x.shape)


def stored(build: Build, layer: int, key: Node | None, value: Node | None, inputs: CacheInputs) -> tuple[Node, Node]:
    """The keys and values of the whole cache as views, after the new ones were written; those given without a cache."""
    hyper, settings, graph = build.hyper, build.settings, build.graph
    if inputs.key_rows is None and key is not None and value is not None:
        return key, value
    owner, streams = hyper.cache_layer(layer), settings.streams
    cells = cells_of(hyper, settings, owner)
    kv_heads, key_length = hyper.kv_heads[owner], hyper.key_length(owner)
    key_width = key_length * kv_heads
    cache = build.cached(settings.key_type, owner, key_width, cells, streams)
    if key is not None and inputs.key_rows is not None:
        target = cache if streams == 1 else graph.reshape(cache, key_width, cells * streams)
        new = graph.view(key, (key_width, build.tokens), (key.strides[2],))
        graph.expand(graph.set_rows(target, new, inputs.key_rows))
    row = row_bytes(settings.key_type, key_width)
    strides = (row_bytes(settings.key_type, key_length), row, row * cells)
    keys = graph.view(cache, (key_length, kv_heads, cells, streams), strides)
    if hyper.is_latent:
        length = value.shape[0] if value is not None else key_length
        return keys, graph.view(keys, (length, *keys.shape[1:]), keys.strides[1:])
    return keys, _stored_values(build, owner, cells, value, inputs.value_rows)


def _stored_values(build: Build, owner: int, cells: int, value: Node | None, rows: Node | None) -> Node:
    """The values of the whole cache; where they lie transposed, with a row for each element."""
    hyper, settings, graph = build.hyper, build.settings, build.graph
    streams, kind, transposed = settings.streams, settings.value_type, settings.transposes_values
    kv_heads, length = hyper.kv_heads[owner], hyper.value_length(owner)
    width = hyper.widest_values if transposed else length * kv_heads
    cache = build.cached(kind, owner, width, cells, streams)
    if value is not None and rows is not None:
        write = _write_transposed if transposed else _write_rows
        write(build, cache, value, rows)
    if not transposed:
        row = row_bytes(kind, width)
        return graph.view(cache, (length, kv_heads, cells, streams), (row_bytes(kind, length), row, row * cells))
    row = row_bytes(kind, cells)
    return graph.view(cache, (cells, kv_heads, length, streams), (row * length, row, row * width))


def _write_rows(build: Build, cache: Node, value: Node, rows: Node) -> None:
    graph = build.graph
    width, cells, streams = cache.shape[:3]
    new = graph.view(value, (width, build.tokens), (value.strides[2],))
    target = cache if streams == 1 else graph.reshape(cache, width, cells * streams)
    graph.expand(graph.set_rows(target, new, rows))


def _write_transposed(build: Build, cache: Node, value: Node, rows: Node) -> None:
    """Element by element, filled up to the width of the widest layer."""
    graph, width = build.graph, cache.shape[0]
    own = value.shape[0] * value.shape[1]
    merged = value.strides[2] == row_bytes(value.kind, own)
    new = graph.reshape(value, own, build.tokens) if merged else graph.cont(value, own, build.tokens)
    if own < width:
        new = graph.pad(new, width - own)
    target = graph.reshape(cache, 1, cache.elements)
    graph.expand(graph.set_rows(target, graph.reshape(new, 1, new.elements), rows))


class Operands(NamedTuple):
    """What attention is computed of: (length, heads, tokens, streams), but for the mask."""

    query: Node
    keys: Node
    values: Node
    mask: Node


def product(build: Build, layer: int, operands: Operands, extras: Extras = _NOTHING) -> Node:
    """Each query's mean of the values, weighed by its scores: (heads x length, tokens)."""
    graph, query, keys = build.graph, operands.query, operands.keys
    streams = keys.shape[3]
    length, heads, tokens = query.shape[:3]
    per_stream = tokens // streams
    strides = (query.strides[1], query.strides[2], query.strides[2] * per_stream)
    query = graph.view(query, (length, heads, per_stream, streams), strides)
    transposed = operands.values.strides[1] > operands.values.strides[2]
    query, keys, values = (graph.permute(n, 0, 2, 1, 3) for n in (query, keys, operands.values))
    operands = Operands(query, keys, values, operands.mask)
    if build.kernels.flash_attention and extras.score_bias is None:
        return graph.expand(_flash(build, layer, operands, extras))
    if not transposed:
        operands = operands._replace(values=graph.cont(graph.transpose(values)))
    return graph.expand(_by_hand(build, layer, operands, extras))


def _sinks(build: Build, layer: int) -> Node | None:
    name = f"{build.block(layer)}.attn_sinks.weight"
    return build.weight(name) if build.has(name) else None


def _flash(build: Build, layer: int, operands: Operands, extras: Extras) -> Node:
    """In one kernel."""
    graph = build.graph
    keys, values = (graph.cast(n, "F16") if n.kind == "F32" else n for n in (operands.keys, operands.values))
    result = graph.flash_attn(operands.query, keys, values, operands.mask, _sinks(build, layer))
    build.fused.append((layer, result))
    if extras.value_matrix is not None:
        result = graph.mul_mat(extras.value_matrix, graph.permute(result, 0, 2, 1, 3))
        result = graph.cont(graph.permute(result, 0, 2, 1, 3))
    a, b, c, d = result.shape
    return graph.reshape(result, a * b, c * d)


def _by_hand(build: Build, layer: int, operands: Operands, extras: Extras) -> Node:
    """Scores, softmax and sum one after the other; the scores of all heads are the largest tensor by far."""
    graph = build.graph
    scores = graph.mul_mat(operands.keys, operands.query)
    if build.hyper.caps_scores:
        scores = graph.scale(graph.unary(graph.scale(scores)))
    if extras.score_bias is not None:
        scores = graph.add(scores, extras.score_bias)
    scores = graph.soft_max(scores, operands.mask, _sinks(build, layer))
    result = graph.mul_mat(operands.values, scores)
    if extras.value_matrix is not None:
        result = graph.mul_mat(extras.value_matrix, result)
    result = graph.permute(result, 0, 2, 1, 3)
    a, b, c, d = result.shape
    return graph.cont(result, a * b, c * d)


def attention_output(build: Build, layer: int, x: Node, result: Node) -> Node:
    """What a layer says after attention: normed and gated where it has tensors for that, then brought to its width."""
    name, graph = build.block(layer), build.graph
    if build.has(f"{name}.attn_sub_norm.weight"):
        result = build.norm(result, f"{name}.attn_sub_norm")
    if build.has(f"{name}.attn_gate.weight"):
        result = _gated(build, layer, result, build.linear(x, f"{name}.attn_gate"))
    result = build.linear(result, f"{name}.attn_{'o' if build.has(f'{name}.attn_o.weight') else 'output'}")
    return graph.scale(result) if build.hyper.scales_values else result


def _gated(build: Build, layer: int, result: Node, gate: Node) -> Node:
    """Element by element, or head by head where the gate has one number for each."""
    graph, heads = build.graph, build.hyper.heads[layer]
    if gate.shape[0] != heads:
        return graph.mul(result, graph.unary(gate))
    width, tokens = result.shape[:2]
    by_head = graph.reshape(result, width // heads, heads, tokens)
    if build.hyper.is_latent and any(build.hyper.recurrent):  # Ling 3
        gated = graph.mul(by_head, graph.unary(graph.reshape(gate, 1, heads, tokens)))
        return graph.cont(gated, width, tokens)
    gated = graph.mul(by_head, graph.reshape(graph.unary(gate), 1, heads, tokens))
    return graph.reshape(gated, width, tokens)
