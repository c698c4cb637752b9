"""Attention over a cache: queries, keys and values, and the product of all three."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.cache import cells_of
from unslow.think.memory.llama_cpp.node import Node, block_of, row_bytes

_ROTATION = 64
"""The smallest matrix that quantised keys and values are rotated with."""


class CacheInputs(NamedTuple):
    """What the host tells a kind of cache before each computation."""

    key_rows: Node
    value_rows: Node | None
    mask: Node
    key_rotation: Node | None
    value_rotation: Node | None


def cache_inputs(build: Build, layer: int) -> CacheInputs:
    """The inputs of the cache that this layer and all of its kind use."""
    hyper, settings, graph = build.hyper, build.settings, build.graph
    flash, streams, tokens = build.kernels.flash_attention, settings.streams, build.tokens
    cells = cells_of(hyper, settings, layer)
    value_rows = None
    if not hyper.is_latent:
        value_rows = graph.input("I64", tokens if flash else tokens * hyper.widest_values, name="value rows")
    return CacheInputs(
        key_rows=graph.input("I64", tokens, name="key rows"),
        value_rows=value_rows,
        mask=graph.input("F16" if flash else "F32", cells, tokens // streams, 1, streams, name="mask"),
        key_rotation=_key_rotation(build, layer),
        value_rotation=_value_rotation(build, layer),
    )


def _key_rotation(build: Build, layer: int) -> Node | None:
    length = build.hyper.key_length(layer)
    if build.hyper.is_latent or block_of(build.settings.key_type)[0] == 1 or length % _ROTATION:
        return None
    size = length & -length  # the largest power of two that divides it
    return build.graph.input("F32", size, size, name="key rotation")


def _value_rotation(build: Build, layer: int) -> Node | None:
    if build.hyper.is_latent or block_of(build.settings.value_type)[0] == 1:
        return None
    if build.hyper.value_length(layer) % _ROTATION:
        return None
    return build.graph.input("F32", _ROTATION, _ROTATION, name="value rotation")


class Heads(NamedTuple):
    """Queries, keys and values of the new tokens: (length, heads, tokens)."""

    query: Node
    key: Node | None
    value: Node | None
    gate: Node | None = None
    """What the result is multiplied by (Qwen3-Next)."""


def plain_heads(build: Build, layer: int, x: Node) -> Heads:
    """Queries, keys and values by one product each, or by one for all."""
    name, hyper, graph = f"blk.{layer}", build.hyper, build.graph
    key_length, value_length = hyper.key_length(layer), hyper.value_length(layer)
    heads, kv_heads = hyper.heads[layer], hyper.kv_heads[layer]
    shapes = ((key_length, heads), (key_length, kv_heads), (value_length, kv_heads))
    if build.has(f"{name}.attn_qkv.weight"):
        joined = build.linear(x, f"{name}.attn_qkv")
        row = joined.strides[1]
        parts = [graph.view(joined, (n, h, build.tokens), (row_bytes("F32", n), row)) for n, h in shapes]
        return Heads(*parts)
    query, *others = (build.linear(x, f"{name}.attn_{part}") for part in "qkv")
    key, value = (graph.reshape(p, n, h, build.tokens) for p, (n, h) in zip(others, shapes[1:], strict=True))
    if query.shape[0] == 2 * key_length * heads:
        return _gated_heads(build, query, key, value, (key_length, heads, build.tokens))
    return Heads(graph.reshape(query, *shapes[0], build.tokens), key, value)


def _gated_heads(build: Build, joined: Node, key: Node, value: Node, shape: tuple[int, int, int]) -> Heads:
    """Each head's query and the gate of its result come from one product, side by side."""
    graph = build.graph
    length, heads, tokens = shape
    step = row_bytes("F32", 2 * length)
    query, gate = (graph.view(joined, shape, (step, step * heads)) for _ in range(2))
    return Heads(query, key, value, graph.cont(gate, length * heads, tokens))


def rotated(build: Build, layer: int, heads: Heads) -> Heads:
    """With the norms of the heads and the rotary positions, as most models have them."""
    name, graph = f"blk.{layer}", build.graph
    query, key, value, gate = heads
    factors = build.weight("rope_freqs.weight") if build.has("rope_freqs.weight") else None
    if build.has(f"{name}.attn_q_norm.weight"):
        query = build.norm(query, f"{name}.attn_q_norm")
    query = graph.rope(query, build.positions, factors)
    if key is not None:
        if build.has(f"{name}.attn_k_norm.weight"):
            key = build.norm(key, f"{name}.attn_k_norm")
        key = graph.rope(key, build.positions, factors)
    return Heads(query, key, value, gate)


def attended(build: Build, layer: int, heads: Heads, inputs: CacheInputs, value_matrix: Node | None = None) -> Node:
    """Write keys and values into the cache, and attend to all that it holds: (heads x length, tokens)."""
    graph = build.graph
    query, key, value, gate = heads
    if inputs.key_rotation is not None:
        query = _turned(build, query, inputs.key_rotation)
        key = key and _turned(build, key, inputs.key_rotation)
    if inputs.value_rotation is not None:
        value = value and _turned(build, value, inputs.value_rotation)
    order = (query, key, value) if build.hyper.window else (query, value, key)
    for node in order:
        if node is not None:
            graph.expand(node)
    keys, values = _stored(build, layer, key, value, inputs)
    result = _product(build, layer, query, keys, values, inputs.mask, value_matrix)
    graph.expand(result)
    if inputs.value_rotation is not None:
        result = _turned(build, result, inputs.value_rotation)
    return result if gate is None else graph.mul(result, graph.unary(gate))


def _turned(build: Build, x: Node, rotation: Node) -> Node:
    """Rotated by a Hadamard matrix, which quantised caches lose less with."""
    size, graph = rotation.shape[0], build.graph
    rows = x.elements // size
    flat = graph.reshape(x, size, rows) if x.is_contiguous else graph.cont(x, size, rows)
    return graph.reshape(graph.mul_mat(rotation, flat), *x.shape)


def _stored(build: Build, layer: int, key: Node | None, value: Node | None, inputs: CacheInputs) -> tuple[Node, Node]:
    """The keys and values of the whole cache as views, after the new ones were written."""
    hyper, settings, graph = build.hyper, build.settings, build.graph
    owner, streams = hyper.cache_layer(layer), settings.streams
    cells = cells_of(hyper, settings, owner)
    kv_heads, key_length = hyper.kv_heads[owner], hyper.key_length(owner)
    key_width = key_length * kv_heads
    cache = build.cached(settings.key_type, owner, key_width, cells, streams)
    if key is not None:
        target = cache if streams == 1 else graph.reshape(cache, key_width, cells * streams)
        new = graph.view(key, (key_width, build.tokens), (key.strides[2],))
        graph.expand(graph.set_rows(target, new, inputs.key_rows))
    row = row_bytes(settings.key_type, key_width)
    strides = (row_bytes(settings.key_type, key_length), row, row * cells)
    keys = graph.view(cache, (key_length, kv_heads, cells, streams), strides)
    if hyper.is_latent:
        length = value.shape[0] if value is not None else key_length
        return keys, graph.view(keys, (length, *keys.shape[1:]), keys.strides[1:])
    return keys, _stored_values(build, owner, cells, value, inputs)


def _stored_values(build: Build, owner: int, cells: int, value: Node | None, inputs: CacheInputs) -> Node:
    """The values of the whole cache; without flash attention they lie transposed, a row for each element."""
    hyper, settings, graph = build.hyper, build.settings, build.graph
    streams, kind = settings.streams, settings.value_type
    kv_heads, length = hyper.kv_heads[owner], hyper.value_length(owner)
    own_width = width = length * kv_heads
    if not build.kernels.flash_attention:
        width = hyper.widest_values
    cache = build.cached(kind, owner, width, cells, streams)
    rows = inputs.value_rows
    if value is not None and rows is not None and build.kernels.flash_attention:
        new = graph.view(value, (own_width, build.tokens), (value.strides[2],))
        target = cache if streams == 1 else graph.reshape(cache, width, cells * streams)
        graph.expand(graph.set_rows(target, new, rows))
    elif value is not None and rows is not None:
        merged = value.strides[2] == row_bytes(value.kind, own_width)
        shape = own_width, build.tokens
        new = graph.reshape(value, *shape) if merged else graph.cont(value, *shape)
        if own_width < width:
            new = graph.pad(new, width - own_width)
        target = graph.reshape(cache, 1, cache.elements)
        graph.expand(graph.set_rows(target, graph.reshape(new, 1, new.elements), rows))
    if build.kernels.flash_attention:
        row = row_bytes(kind, width)
        return graph.view(cache, (length, kv_heads, cells, streams), (row_bytes(kind, length), row, row * cells))
    row = row_bytes(kind, cells)
    return graph.view(cache, (cells, kv_heads, length, streams), (row * length, row, row * width))


class _Operands(NamedTuple):
    """What attention is computed of: (length, tokens, heads, streams), but for the mask."""

    query: Node
    keys: Node
    values: Node
    mask: Node
    sinks: Node | None
    value_matrix: Node | None
    """Brings compressed values back to a head's own, in latent attention."""


def _product(
    build: Build, layer: int, query: Node, keys: Node, values: Node, mask: Node, value_matrix: Node | None
) -> Node:
    graph = build.graph
    streams = keys.shape[3]
    length, heads, tokens = query.shape[:3]
    per_stream = tokens // streams
    strides = (query.strides[1], query.strides[2], query.strides[2] * per_stream)
    query = graph.view(query, (length, heads, per_stream, streams), strides)
    query, keys, values = (graph.permute(n, 0, 2, 1, 3) for n in (query, keys, values))
    sinks_name = f"blk.{layer}.attn_sinks.weight"
    sinks = build.weight(sinks_name) if build.has(sinks_name) else None
    operands = _Operands(query, keys, values, mask, sinks, value_matrix)
    return _flash(build, layer, operands) if build.kernels.flash_attention else _by_hand(build, operands)


def _flash(build: Build, layer: int, operands: _Operands) -> Node:
    """In one kernel."""
    graph = build.graph
    keys, values = (graph.cast(n, "F16") if n.kind == "F32" else n for n in (operands.keys, operands.values))
    result = graph.flash_attn(operands.query, keys, values, operands.mask, operands.sinks)
    build.fused.append((layer, result))
    if operands.value_matrix is not None:
        result = graph.mul_mat(operands.value_matrix, graph.permute(result, 0, 2, 1, 3))
        result = graph.cont(graph.permute(result, 0, 2, 1, 3))
    a, b, c, d = result.shape
    return graph.reshape(result, a * b, c * d)


def _by_hand(build: Build, operands: _Operands) -> Node:
    """Scores, softmax and sum one after the other; the scores of all heads are the largest tensor by far."""
    graph, values = build.graph, operands.values
    scores = graph.mul_mat(operands.keys, operands.query)
    if build.hyper.caps_scores:
        scores = graph.scale(graph.unary(graph.scale(scores)))
    scores = graph.soft_max(scores, operands.mask, operands.sinks)
    if build.hyper.is_latent:
        values = graph.cont(graph.transpose(values))
    result = graph.mul_mat(values, scores)
    if operands.value_matrix is not None:
        result = graph.mul_mat(operands.value_matrix, result)
    result = graph.permute(result, 0, 2, 1, 3)
    a, b, c, d = result.shape
    return graph.cont(result, a * b, c * d)
