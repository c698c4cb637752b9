"""Kimi delta attention: a delta network with a convolution for each projection, whose channels fade one by one."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.delta_rule import Heads, delta_rule
from unslow.think.memory.llama_cpp.node import Node, row_bytes
from unslow.think.memory.llama_cpp.recurrent import (
    StateRows,
    by_sequence,
    convolution_cache,
    convolved,
    loaded,
    memory_cache,
    stored,
)


def kimi_delta(build: Build, layer: int, x: Node, rows: StateRows) -> Node:
    """A whole layer, with its projections."""
    graph, name = build.graph, build.block(layer)
    length, heads = build.size("kda.head_dim"), build.hyper.heads[layer]
    shape = length, heads, build.sequence_tokens, build.settings.slots
    if not build.hyper.habits.loads_states_first:
        graph.expand(x)
    query, key, value = _projected(build, layer, x, rows, shape)
    decay = _decay(build, layer, x, shape)
    strength = graph.unary(graph.reshape(build.linear(x, f"{name}.ssm_beta"), 1, *shape[1:]))
    cache = memory_cache(build, layer)
    memory = graph.reshape(loaded(build, cache, rows), length, length, heads, shape[3])
    query, key = (graph.norm(n, "l2_norm") for n in (query, key))
    answer = delta_rule(build, layer, Heads(query, key, value, decay, strength), memory)
    stored(build, cache, answer.memory)
    output = graph.reshape(graph.cont(answer.output), length, heads, build.tokens)
    gate = graph.reshape(_gate(build, layer, x), length, heads, build.tokens)
    output = graph.mul(build.norm(output, f"{name}.ssm_norm"), graph.unary(gate))
    return build.linear(graph.cont(output, length * heads, build.tokens), f"{name}.attn_output")


def _projected(
    build: Build, layer: int, x: Node, rows: StateRows, shape: tuple[int, int, int, int]
) -> tuple[Node, Node, Node]:
    """Queries, keys and values, each after a convolution of its own; their last inputs lie in one state."""
    graph, name = build.graph, build.block(layer)
    cache = convolution_cache(build, layer)
    states = loaded(build, cache, rows)

    def part(letter: str) -> Node:
        kernel = build.weight(f"{name}.ssm_conv1d_{letter}.weight")
        kernel = graph.reshape(kernel, kernel.shape[0], shape[0] * shape[1])
        inputs = by_sequence(build, build.linear(x, f"{name}.attn_{letter}"))
        last = kernel.shape[0] - 1, *inputs.shape[0:3:2]
        strides = row_bytes("F32", last[0]), states.strides[1]
        joined = graph.concat(graph.view(states, last, strides), graph.transpose(inputs), 0)
        target = graph.view(cache, last, strides)
        graph.expand(graph.copy_to(graph.view(joined, last, joined.strides[1:3]), target))
        channels = graph.reshape(convolved(build, joined, kernel), kernel.shape[1], build.tokens)
        return graph.reshape(graph.unary(channels), *shape)

    return part("q"), part("k"), part("v")


def _decay(build: Build, layer: int, x: Node, shape: tuple[int, int, int, int]) -> Node:
    """How fast each channel fades; a lower bound keeps it from fading at once (Kimi K3, Ling 3)."""
    graph, name = build.graph, build.block(layer)
    bounded = bool(build.hyper.blueprint.number("kda.gate_lower_bound"))
    rate = build.linear(x, f"{name}.ssm_f_a")
    if build.has(f"{name}.ssm_f_b.weight"):
        rate = build.linear(rate, f"{name}.ssm_f_b")
    rate = graph.add(rate, build.weight(f"{name}.ssm_dt.bias"))
    if not bounded:
        rate = graph.unary(rate)
    rate = graph.reshape(rate, shape[0], shape[1], build.tokens)
    decay = graph.mul(rate, graph.reshape(build.weight(f"{name}.ssm_a"), 1, shape[1], 1))
    if bounded:
        decay = graph.scale(graph.unary(decay))
    return graph.reshape(decay, *shape)


def _gate(build: Build, layer: int, x: Node) -> Node:
    """What the output is multiplied by: of one product, or of two with a narrow middle."""
    name = build.block(layer)
    if build.has(f"{name}.ssm_g.weight"):
        return build.linear(x, f"{name}.ssm_g")
    gate = build.linear(x, f"{name}.ssm_g_a")
    return build.linear(gate, f"{name}.ssm_g_b") if build.has(f"{name}.ssm_g_b.weight") else gate
