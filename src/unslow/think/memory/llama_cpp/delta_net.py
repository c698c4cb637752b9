"""Gated delta networks (Qwen3-Next, Qwen3.5): attention whose memory is one matrix for each head."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.delta_rule import Heads, delta_rule
from unslow.think.memory.llama_cpp.node import Node, row_bytes
from unslow.think.memory.llama_cpp.recurrent import (
    StateRows,
    by_sequence,
    convolved,
    loaded,
    memory_cache,
    stored,
    with_last_inputs,
)


class _Sizes(NamedTuple):
    """The dimensions of a gated delta network."""

    key_length: int
    key_heads: int
    value_length: int
    value_heads: int
    tokens: int
    sequences: int

    @property
    def shared(self) -> int:
        """Value heads for each key head."""
        return self.value_heads // self.key_heads

    @property
    def values(self) -> tuple[int, int, int, int]:
        """The shape of all values."""
        return self.value_length, self.value_heads, self.tokens, self.sequences


def delta_net(build: Build, layer: int, x: Node, rows: StateRows) -> Node:
    """A whole linear-attention layer, with its projections."""
    graph, name, sizes = build.graph, build.block(layer), _sizes(build)
    graph.expand(x)
    mixed, gate = _projected(build, layer, x, sizes)
    strength, decay = _strength_and_decay(build, layer, x, sizes)
    kernel = build.weight(f"{name}.ssm_conv1d.weight")
    inputs = with_last_inputs(build, layer, rows, mixed, kernel.shape[0])
    cache = memory_cache(build, layer)
    memory = loaded(build, cache, rows)
    memory = graph.reshape(memory, sizes.value_length, sizes.value_length, sizes.value_heads, sizes.sequences)
    query, key, value = _heads(build, layer, graph.unary(convolved(build, inputs, kernel)), sizes)
    answer = delta_rule(build, layer, Heads(query, key, value, decay, strength), memory)
    stored(build, cache, answer.memory)
    normed = build.norm(answer.output, f"{name}.ssm_norm")
    output = graph.mul(normed, graph.unary(graph.reshape(gate, *sizes.values)))
    output = graph.reshape(output, sizes.value_length * sizes.value_heads, sizes.tokens, sizes.sequences)
    return graph.reshape(build.linear(output, f"{name}.ssm_out"), build.hyper.width, build.tokens)


def _sizes(build: Build) -> _Sizes:
    value_heads = build.size("ssm.time_step_rank")
    return _Sizes(
        key_length=build.size("ssm.state_size"),
        key_heads=build.size("ssm.group_count"),
        value_length=build.size("ssm.inner_size") // value_heads,
        value_heads=value_heads,
        tokens=build.sequence_tokens,
        sequences=build.settings.slots,
    )


def _projected(build: Build, layer: int, x: Node, sizes: _Sizes) -> tuple[Node, Node]:
    """The channels of the convolution, and the output gate."""
    name = build.block(layer)
    if not build.has(f"{name}.attn_qkv.weight"):
        return _projected_at_once(build, layer, x, sizes)
    mixed = build.linear(x, f"{name}.attn_qkv")
    return by_sequence(build, mixed), build.linear(x, f"{name}.attn_gate")


def _projected_at_once(build: Build, layer: int, x: Node, sizes: _Sizes) -> tuple[Node, Node]:
    """The same of older files: one product, in which all parts of a key head lie side by side."""
    graph = build.graph
    joined = build.linear(x, f"{build.block(layer)}.ssm_in")
    by_head = sizes.key_heads, sizes.tokens, sizes.sequences
    joined = graph.reshape(joined, joined.shape[0] // sizes.key_heads, *by_head)
    lengths = (*(sizes.key_length,) * 2, *(sizes.value_length * sizes.shared,) * 2)
    query, key, value, gate = (graph.view(joined, (n, *by_head), joined.strides[1:]) for n in lengths)
    gate = graph.cont(gate)
    query, key, value = (
        graph.cont(n, n.shape[0] * sizes.key_heads, sizes.tokens, sizes.sequences) for n in (query, key, value)
    )
    return graph.concat(graph.concat(query, key, 0), value, 0), gate


def _strength_and_decay(build: Build, layer: int, x: Node, sizes: _Sizes) -> tuple[Node, Node]:
    """How strongly a token writes into the memory, and how fast the memory fades."""
    graph, name, shape = build.graph, build.block(layer), sizes.values[1:]
    if build.has(f"{name}.ssm_ba.weight"):
        strength, rate = _strength_and_rate_at_once(build, layer, x, sizes)
    else:
        strength = graph.reshape(build.linear(x, f"{name}.ssm_beta"), 1, *shape)
        rate = graph.reshape(build.linear(x, f"{name}.ssm_alpha"), *shape)
    rate = graph.unary(graph.add(rate, build.weight(f"{name}.ssm_dt.bias")))
    decay = graph.mul(rate, build.weight(f"{name}.ssm_a"))
    return graph.reshape(graph.unary(strength), 1, *shape), graph.reshape(decay, 1, *shape)


def _strength_and_rate_at_once(build: Build, layer: int, x: Node, sizes: _Sizes) -> tuple[Node, Node]:
    """Both by one product, in which those of a key head lie side by side."""
    graph = build.graph
    by_head = sizes.key_heads, sizes.tokens, sizes.sequences
    joined = graph.reshape(build.linear(x, f"{build.block(layer)}.ssm_ba"), 2 * sizes.shared, *by_head)
    strength, rate = (graph.view(joined, (sizes.shared, *by_head), joined.strides[1:]) for _ in range(2))
    return graph.cont(strength), graph.cont(rate, *sizes.values[1:])


def _heads(build: Build, layer: int, channels: Node, sizes: _Sizes) -> tuple[Node, Node, Node]:
    """Queries, keys and values out of the convolved channels."""
    graph = build.graph
    row = channels.strides[1]

    def part(length: int, count: int) -> Node:
        strides = row_bytes("F32", length), row, row * sizes.tokens
        return graph.view(channels, (length, count, sizes.tokens, sizes.sequences), strides)

    query, key = (graph.norm(part(sizes.key_length, sizes.key_heads), "l2_norm") for _ in range(2))
    value = part(sizes.value_length, sizes.value_heads)
    if sizes.shared > 1:
        query, key = (_repeated(build, layer, n, sizes) for n in (query, key))
    return query, key, value


def _repeated(build: Build, layer: int, x: Node, sizes: _Sizes) -> Node:
    """A key head for each value head, where the delta rule does not share them by itself."""
    graph, kernels = build.graph, build.kernels
    shape = (sizes.key_length, *sizes.values[1:])
    if build.has(f"{build.block(layer)}.ssm_ba.weight"):  # the value heads of a key head follow each other
        apart = sizes.key_length, 1, sizes.key_heads, sizes.tokens * sizes.sequences
        whole = sizes.key_length, sizes.shared, sizes.key_heads, sizes.tokens * sizes.sequences
        return graph.reshape(graph.repeat(graph.reshape(x, *apart), *whole), *shape)
    return x if kernels.delta_step and kernels.delta_chunk else graph.repeat(x, *shape)
