"""How RWKV 7, and Qwen models turned into one, mix tokens over time."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.graph import UnknownLayoutError
from unslow.think.memory.llama_cpp.node import Node, row_bytes
from unslow.think.memory.llama_cpp.recurrent import StateRows
from unslow.think.memory.llama_cpp.rwkv6 import Neighbours, head_shape, heard, normed_heads

_MIXES = (5, 6)
"""Of a token and its predecessor, for each layer: without a gate, and with one."""


def time_mixed_7(
    build: Build, layer: int, x: Neighbours, rows: StateRows, first_value: Node | None
) -> tuple[Node, Node]:
    """The first half of a layer, (width, tokens, sequences), and the first layer's values."""
    graph, name, shape = build.graph, f"{build.block(layer)}.time_mix", head_shape(build)
    for_receptance, for_decay, for_key, for_value, for_rate, *for_gate = _mixes(build, layer, x)
    receptance = build.linear(for_receptance, f"{name}_receptance")
    decay = graph.unary(graph.scale(graph.unary(_narrow(build, f"{name}_w", for_decay, activated=True))))
    key, value = build.linear(for_key, f"{name}_key"), build.linear(for_value, f"{name}_value")
    if first_value is None:
        first_value = value
    else:
        share = graph.unary(_narrow(build, f"{name}_v", for_value))
        value = graph.add(value, graph.mul(graph.binary("sub", first_value, value), share))
    rate = graph.unary(_narrow(build, f"{name}_a", for_rate))
    removed = graph.reshape(graph.mul(key, build.weight(f"{name}_k_k.weight")), *shape)
    removed = graph.norm(removed, "l2_norm")
    weighted = graph.mul(key, build.weight(f"{name}_k_a.weight"))
    key = graph.add(key, graph.binary("sub", graph.mul(rate, weighted), weighted))
    receptance, decay, key, value, rate = (graph.reshape(n, *shape) for n in (receptance, decay, key, value, rate))
    replaced = graph.unary(removed), graph.mul(removed, rate)
    y = heard(build, layer, rows, "rwkv_wkv7", receptance, decay, key, value, *replaced)
    y = normed_heads(build, layer, y)
    bonus = graph.reshape(build.weight(f"{name}_r_k.weight"), *shape[:2])
    bonus = graph.sum_rows(graph.mul(graph.mul(key, receptance), bonus))
    y = graph.add(y, graph.reshape(graph.mul(value, bonus), *y.shape))
    if for_gate:
        y = graph.mul(y, _narrow(build, f"{name}_g", for_gate[0], activated=True))
    y = build.linear(y, f"{name}_output")
    return graph.reshape(y, y.shape[0], build.sequence_tokens, build.settings.slots), first_value


def _mixes(build: Build, layer: int, x: Neighbours) -> list[Node]:
    """A token and its predecessor in fixed shares."""
    graph = build.graph
    width, tokens = build.hyper.width, build.tokens
    shares = build.weight(f"{build.block(layer)}.time_mix_lerp_fused.weight")
    if shares.shape[3] not in _MIXES:
        raise UnknownLayoutError(f"the layers of RWKV 7 have 5 or 6 mixes, and not {shares.shape[3]}")
    change = graph.binary("sub", x.before, x.token)
    change = graph.repeat(change, *change.shape[:3], shares.shape[3])
    mixes = graph.add(graph.mul(change, shares), x.token)
    return [graph.view(mixes, (width, tokens), (row_bytes("F32", width),)) for _ in range(shares.shape[3])]


def _narrow(build: Build, name: str, x: Node, *, activated: bool = False) -> Node:
    """Two products with a narrow middle, and a bias where it has one."""
    inner = build.linear(x, f"{name}1")
    y = build.linear(build.graph.unary(inner) if activated else inner, f"{name}2")
    return build.graph.add(y, build.weight(f"{name}0.weight")) if build.has(f"{name}0.weight") else y
