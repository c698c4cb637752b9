"""How RWKV 6, and Qwen models turned into one, mix tokens over time."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node, row_bytes
from unslow.think.memory.llama_cpp.recurrent import StateRows, loaded, memory_cache, stored

_MIXES = "wkvrg"
"""What a token and its predecessor are mixed for: decay, key, value, receptance, gate."""


class Neighbours(NamedTuple):
    """Tokens and their predecessors: (width, tokens, sequences)."""

    token: Node
    before: Node


def time_mixed_6(build: Build, layer: int, x: Neighbours, rows: StateRows) -> Node:
    """The first half of a layer, (width, tokens, sequences)."""
    graph, name, shape = build.graph, f"{build.block(layer)}.time_mix", head_shape(build)
    mixes = dict(zip(_MIXES, _mixes(build, layer, x), strict=True))
    receptance = build.linear(mixes["r"], f"{name}_receptance")
    key, value = (_repeated(build, layer, build.linear(mixes[part[0]], f"{name}_{part}")) for part in ("key", "value"))
    gate = graph.unary(build.linear(mixes["g"], f"{name}_gate"))
    key, value, receptance = (graph.reshape(n, *shape) for n in (key, value, receptance))
    decay = graph.unary(build.linear(mixes["w"], f"{name}_decay_w1"))
    decay = graph.add(build.linear(decay, f"{name}_decay_w2"), build.weight(f"{name}_decay.weight"))
    decay = graph.reshape(graph.unary(graph.unary(graph.unary(decay))), *shape)
    if build.has(f"{name}_first.weight"):
        first = build.weight(f"{name}_first.weight")
        y = heard(build, layer, rows, "rwkv_wkv6", key, value, receptance, first, decay)
    else:
        key = graph.binary("sub", key, graph.mul(key, decay))
        y = heard(build, layer, rows, "gated_linear_attn", key, value, receptance, decay)
    y = graph.mul(normed_heads(build, layer, y), gate)
    y = build.linear(y, f"{name}_output")
    return graph.reshape(y, y.shape[0], build.sequence_tokens, build.settings.slots)


def head_shape(build: Build) -> tuple[int, int, int]:
    """The shape of all heads."""
    size = build.size("wkv.head_size")
    return size, build.hyper.width // size, build.tokens


def heard(build: Build, layer: int, rows: StateRows, op: str, *operands: Node) -> Node:
    """What all tokens hear through the memory by one kernel; the memory after the last one is written back."""
    graph, cache = build.graph, memory_cache(build, layer)
    size, heads, tokens = head_shape(build)
    state = loaded(build, cache, rows)
    result = graph.special(op, (size * heads, tokens + size * build.settings.slots, 1, 1), *operands, state)
    stored(build, cache, graph.view(result, (cache.elements,)))
    return graph.view(result, (size * heads * tokens,))


def normed_heads(build: Build, layer: int, y: Node) -> Node:
    """Each head brought to one length, where the layer has a norm for it."""
    graph, name, width = build.graph, f"{build.block(layer)}.time_mix_ln", build.hyper.width
    if not build.has(f"{name}.weight"):
        return graph.reshape(y, width, build.tokens)
    y = graph.norm(graph.reshape(y, *head_shape(build)), "norm")
    y = graph.mul(graph.reshape(y, width, build.tokens), build.weight(f"{name}.weight"))
    return graph.add(y, build.weight(f"{name}.bias"))


def _mixes(build: Build, layer: int, x: Neighbours) -> list[Node]:
    """The five mixes of a token and its predecessor, whose shares depend on both."""
    graph, name = build.graph, f"{build.block(layer)}.time_mix"
    width, tokens = build.hyper.width, build.tokens
    change, token = (graph.reshape(n, width, tokens) for n in (graph.binary("sub", x.before, x.token), x.token))
    shares = _shares(build, layer, graph.add(graph.mul(change, build.weight(f"{name}_lerp_x.weight")), token))
    fused = build.has(f"{name}_lerp_fused.weight")
    if fused:
        change, token = (graph.reshape(n, width, 1, tokens) for n in (change, token))
        shares = _mix(build, f"{name}_lerp_fused", shares, change, token)
    parts = [graph.view(shares, (width, tokens), (row_bytes("F32", width),)) for _ in _MIXES]
    if fused:
        return parts
    return [
        _mix(build, f"{name}_lerp_{letter}", part, change, token) for letter, part in zip(_MIXES, parts, strict=True)
    ]


def _shares(build: Build, layer: int, x: Node) -> Node:
    """How much of its predecessor each token takes for each mix."""
    graph, name = build.graph, f"{build.block(layer)}.time_mix"
    shares = graph.unary(build.linear(x, f"{name}_w1"))
    shares = graph.reshape(shares, shares.shape[0] // len(_MIXES), 1, len(_MIXES), build.tokens)
    shares = graph.cont(graph.permute(shares, 0, 1, 3, 2))
    wide = build.weight(f"{name}_w2.weight")
    return graph.mul_mat(graph.reshape(wide, *wide.shape[:2], 1, len(_MIXES)), shares)


def _mix(build: Build, name: str, shares: Node, change: Node, token: Node) -> Node:
    graph = build.graph
    return graph.add(graph.mul(graph.add(shares, build.weight(f"{name}.weight")), change), token)


def _repeated(build: Build, layer: int, x: Node) -> Node:
    """A key or value for each head, where several heads share one."""
    size, heads, tokens = head_shape(build)
    kv_heads = build.hyper.kv_heads[layer]
    if kv_heads in (0, heads):
        return x
    apart = build.graph.reshape(x, size, 1, kv_heads, tokens)
    return build.graph.repeat(apart, size, heads // kv_heads, kv_heads, tokens)
