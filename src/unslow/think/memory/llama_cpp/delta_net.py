"""Gated delta networks (Qwen3-Next, Qwen3.5): attention whose memory is one matrix for each head."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node, row_bytes
from unslow.think.memory.llama_cpp.recurrent import StateRows, loaded, state_cache, stored, with_last_inputs


def delta_net(build: Build, layer: int, x: Node, rows: StateRows) -> Node:
    """A whole linear-attention layer, with its projections."""
    graph, hyper, name = build.graph, build.hyper, f"blk.{layer}"
    number = hyper.blueprint.count
    sequences = build.settings.slots
    tokens = build.tokens // sequences
    key_length, key_heads, value_heads = (
        number("ssm.state_size"),
        number("ssm.group_count"),
        number("ssm.time_step_rank"),
    )
    value_length = number("ssm.inner_size") // value_heads
    mixed, gate = _projected(build, layer, x, tokens, sequences)
    strength, decay = _strength_and_decay(build, layer, x, (value_heads, tokens, sequences))
    kernel = build.weight(f"{name}.ssm_conv1d.weight")
    convolution = state_cache(build, layer, hyper.convolution_elements)
    inputs = with_last_inputs(build, convolution, rows, mixed, kernel.shape[0])
    memory = state_cache(build, layer, hyper.memory_elements)
    state = graph.reshape(loaded(build, memory, rows), value_length, value_length, value_heads, sequences)
    channels = inputs.shape[1]
    heads = graph.unary(graph.special("ssm_conv", (channels, tokens, sequences, 1), inputs, kernel))
    row = row_bytes("F32", channels)

    def part(length: int, count: int) -> Node:
        strides = (row_bytes("F32", length), row, row * tokens)
        return graph.view(heads, (length, count, tokens, sequences), strides)

    query, key = (graph.norm(part(key_length, key_heads), "l2_norm") for _ in range(2))
    value = part(value_length, value_heads)
    size = value_length * value_heads
    result = graph.special(
        "gated_delta_net", (size, tokens * sequences + value_length * sequences, 1, 1),
        query, key, value, decay, strength, state,
    )  # fmt: skip
    build.fused.append((layer, result))
    step = row_bytes("F32", size)
    shape = (value_length, value_heads, tokens, sequences)
    output = graph.view(result, shape, (row_bytes("F32", value_length), step, step * tokens))
    stored(build, memory, graph.view(result, (value_length, value_length, value_heads, sequences)))
    normed = build.norm(output, f"{name}.ssm_norm")
    output = graph.mul(normed, graph.unary(graph.reshape(gate, *shape)))
    output = build.linear(graph.reshape(output, size, tokens, sequences), f"{name}.ssm_out")
    return graph.reshape(output, hyper.width, build.tokens)


def _projected(build: Build, layer: int, x: Node, tokens: int, sequences: int) -> tuple[Node, Node]:
    """The channels of the convolution, and the output gate."""
    name = f"blk.{layer}"
    mixed = build.linear(x, f"{name}.attn_qkv")
    gate = build.linear(x, f"{name}.attn_gate")
    return build.graph.reshape(mixed, mixed.shape[0], tokens, sequences), gate


def _strength_and_decay(build: Build, layer: int, x: Node, shape: tuple[int, int, int]) -> tuple[Node, Node]:
    """How strongly a token writes into the memory, and how fast the memory fades."""
    graph, name = build.graph, f"blk.{layer}"
    strength = graph.unary(graph.reshape(build.linear(x, f"{name}.ssm_beta"), 1, *shape))
    rate = graph.reshape(build.linear(x, f"{name}.ssm_alpha"), *shape)
    rate = graph.unary(graph.add(rate, build.weight(f"{name}.ssm_dt.bias")))
    return strength, graph.reshape(graph.mul(rate, build.weight(f"{name}.ssm_a")), 1, *shape)
