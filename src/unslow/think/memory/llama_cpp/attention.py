"""Attention over a cache, or over the tokens of the batch alone, and what a layer makes of its result."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.cache_inputs import CacheInputs
from unslow.think.memory.llama_cpp.heads import Heads
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.product import NO_EXTRAS, Extras, Operands, product
from unslow.think.memory.llama_cpp.stored import stored


def attended(build: Build, layer: int, heads: Heads, inputs: CacheInputs, extras: Extras = NO_EXTRAS) -> Node:
    """Attend to all that the cache holds after keys and values were written to it: (heads x length, tokens)."""
    graph = build.graph
    query, key, value, gate = rotated(build, heads, inputs)
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


def rotated(build: Build, heads: Heads, inputs: CacheInputs) -> Heads:
    """The same with queries, keys and values rotated, where the cache asks for it."""
    query, key, value, gate = heads
    if inputs.key_rotation is not None:
        query = hadamard(build, query, inputs.key_rotation)
        key = key and hadamard(build, key, inputs.key_rotation)
    if inputs.value_rotation is not None:
        value = value and hadamard(build, value, inputs.value_rotation)
    return Heads(query, key, value, gate)


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


def distance_bias(build: Build, table: Node, distances: Node) -> Node:
    """A bias for each head and each pair of tokens, by how far these are from each other: (cells, tokens, heads)."""
    graph = build.graph
    cells, tokens = distances.shape[:2]
    found = graph.get_rows(table, graph.reshape(distances, cells * tokens))
    return graph.cont(graph.permute(graph.reshape(found, found.shape[0], cells, tokens), 2, 0, 1, 3))


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
