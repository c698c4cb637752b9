"""Queries, keys and values of the new tokens: products, norms and rotary positions."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node, row_bytes
from unslow.think.memory.llama_cpp.rope import tempered, turned, turns


class Heads(NamedTuple):
    """Queries, keys and values of the new tokens: (length, heads, tokens); without keys, a layer reads another's."""

    query: Node
    key: Node | None
    value: Node | None
    gate: Node | None = None
    """What the result is multiplied by (Qwen3-Next)."""


def heads_of(build: Build, layer: int, x: Node) -> Heads:
    """All of them, ready for attention."""
    return rotated(build, layer, plain_heads(build, layer, x))


def plain_heads(build: Build, layer: int, x: Node) -> Heads:
    """Queries, keys and values by one product each, or by one for all."""
    name, hyper, graph = build.block(layer), build.hyper, build.graph
    length, heads, kv_heads = hyper.key_length(layer), hyper.heads[layer], hyper.kv_heads[layer]
    shapes = (length, heads), (length, kv_heads), (hyper.value_length(layer), kv_heads)
    if build.has(f"{name}.attn_qkv.weight"):
        joined = _clamped(build, build.linear(x, f"{name}.attn_qkv"))
        row = joined.strides[1]
        return Heads(*(graph.view(joined, (n, h, build.tokens), (row_bytes("F32", n), row)) for n, h in shapes))
    query = _projected(build, layer, x, "q")
    if not hyper.keeps_keys(layer):
        return Heads(graph.reshape(query, length, heads, build.tokens), None, None)
    key = _projected(build, layer, x, "k")
    value = _projected(build, layer, x, "v") if build.has(f"{name}.attn_v.weight") else key
    key, value = (graph.reshape(p, *s, build.tokens) for p, s in zip((key, value), shapes[1:], strict=True))
    if query.shape[0] == 2 * length * heads:
        return _gated_heads(build, query, key, value, (length, heads, build.tokens))
    return Heads(graph.reshape(query, length, heads, build.tokens), key, value)


def _projected(build: Build, layer: int, x: Node, part: str) -> Node:
    """One of the products, normed before it is divided into heads where the norm is that of all heads together."""
    name = f"{build.block(layer)}.attn_{part}"
    product = _clamped(build, build.linear(x, name))
    if _norms_all_heads(build, layer, f"{name}_norm"):
        product = build.norm(product, f"{name}_norm")
    return product


def _clamped(build: Build, x: Node) -> Node:
    return build.graph.clamp(x) if build.hyper.clamps_heads else x


def _norms_all_heads(build: Build, layer: int, name: str) -> bool:
    if not build.has(f"{name}.weight"):
        return False
    shape = build.hyper.blueprint.by_name[f"{name}.weight"].shape
    return len(shape) == 1 and shape[0] > build.hyper.key_length(layer)


def _gated_heads(build: Build, joined: Node, key: Node, value: Node, shape: tuple[int, int, int]) -> Heads:
    """Each head's query and the gate of its result come from one product, side by side."""
    graph = build.graph
    length, heads, tokens = shape
    step = row_bytes("F32", 2 * length)
    query, gate = (graph.view(joined, shape, (step, step * heads)) for _ in range(2))
    return Heads(query, key, value, graph.cont(gate, length * heads, tokens))


def rotated(build: Build, layer: int, heads: Heads) -> Heads:
    """With the norms of the heads, the rotary positions, and what scales the queries."""
    graph, habits = build.graph, build.hyper.habits
    query, key, value, gate = heads
    query = _scaled(build, layer, _turned(build, layer, query, "q"))
    key = key and _turned(build, layer, key, "k")
    if value is not None and habits.norms_values:
        value = graph.norm(value)
    return Heads(query, key, value, gate)


def _turned(build: Build, layer: int, x: Node, part: str) -> Node:
    """Normed and turned by the positions, in the order that the architecture has."""
    hyper, turns_here = build.hyper, turns(build.hyper, layer)
    if not hyper.habits.norms_after_rope:
        x = _normed(build, layer, x, part)
    if turns_here:
        x = turned(build, layer, x)
    if hyper.habits.norms_after_rope:
        x = _normed(build, layer, x, part)
    return build.graph.norm(x) if turns_here and hyper.norms_turned_heads else x


def _normed(build: Build, layer: int, x: Node, part: str) -> Node:
    """Head by head; some models have a weight for queries only."""
    name = f"{build.block(layer)}.attn_{part}_norm"
    if _norms_all_heads(build, layer, name):
        return x
    if build.has(f"{name}.weight"):
        return build.norm(x, name, build.hyper.habits.head_norm)
    bare = build.hyper.habits.norms_without_weights and build.has(f"{build.block(layer)}.attn_q_norm.weight")
    return build.graph.norm(x) if bare else x


def _scaled(build: Build, layer: int, query: Node) -> Node:
    if build.hyper.habits.scales_queries:
        query = build.graph.scale(query)
    return tempered(build, layer, query)
