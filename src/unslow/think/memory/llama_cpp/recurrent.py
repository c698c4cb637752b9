"""Layers that keep a state: reading and writing it, convolutions over the last inputs, Mamba and short ones."""

from collections.abc import Callable
from typing import NamedTuple

from unslow.think.memory.llama_cpp.cache import Build
from unslow.think.memory.llama_cpp.graph import Node, row_bytes


class StateRows(NamedTuple):
    """Which state belongs to which sequence of the batch, and which states only move."""

    used: Node
    others: Node


class _Sizes(NamedTuple):
    state: int  # What each channel remembers
    inner: int  # All channels: the heads' lengths together
    heads: int
    groups: int  # Heads of a group share their ways in and out of the state
    tokens: int
    sequences: int

    @property
    def head_length(self) -> int:
        return self.inner // self.heads

    @property
    def by_head(self) -> tuple[int, int, int, int]:
        """The channels of all tokens, head by head."""
        return self.head_length, self.heads, self.tokens, self.sequences


def mamba(build: Build, layer: int, x: Node, rows: StateRows) -> Node:
    """A whole state-space layer, of the kind that its tensors tell."""
    name = build.block(layer)
    if not build.has(f"{name}.ssm_x.weight"):
        kind = _mamba_2
    else:
        kind = _plamo_2 if build.weight(f"{name}.ssm_a").shape[1] == 1 else _mamba_1
    result = build.linear(kind(build, layer, by_sequence(build, x), rows), f"{name}.ssm_out")
    return build.graph.reshape(result, result.shape[0], build.tokens)


def _mamba_1(build: Build, layer: int, x: Node, rows: StateRows) -> Node:
    """Every channel is a head of its own; one matrix tells its step and its ways in and out of the state."""
    graph, name = build.graph, build.block(layer)
    sizes = _sizes(build, build.size("ssm.inner_size"), 1)
    joined = build.linear(x, f"{name}.ssm_in")
    inputs, gate = (_part(build, joined, sizes.inner) for _ in range(2))
    x = _convolve(build, layer, inputs, rows)
    parts = build.linear(x, f"{name}.ssm_x")
    step = _part(build, parts, build.size("ssm.time_step_rank"))
    into, out_of = (_group_part(build, parts, sizes) for _ in range(2))
    if build.has(f"{name}.ssm_dt_norm.weight") or build.hyper.blueprint.count("ssm.dt_b_c_rms"):
        step = build.norm(step, f"{name}.ssm_dt_norm")
        into, out_of = build.norm(into, f"{name}.ssm_b_norm"), build.norm(out_of, f"{name}.ssm_c_norm")
    step = build.linear(step, f"{name}.ssm_dt")
    heads = graph.reshape(x, *sizes.by_head)
    decay = build.weight(f"{name}.ssm_a")
    y = _scan_states(build, layer, rows, sizes, heads, step, decay, into, out_of)
    y = graph.view(y, (sizes.inner, sizes.tokens, sizes.sequences), heads.strides[2:4])
    y = graph.add(y, graph.mul(x, build.weight(f"{name}.ssm_d")))
    return graph.glu(graph.cont(gate), y)


def _mamba_2(build: Build, layer: int, x: Node, rows: StateRows) -> Node:
    """One product gives everything; steps and decays are those of whole heads."""
    graph, name = build.graph, build.block(layer)
    sizes = _sizes(build, build.size("ssm.time_step_rank"), build.size("ssm.group_count"))
    joined = build.linear(x, f"{name}.ssm_in")
    gate = _by_head(build, joined, sizes)
    inputs = _part(build, joined, sizes.inner + 2 * sizes.groups * sizes.state)
    step = _part(build, joined, sizes.heads)
    channels = _convolve(build, layer, inputs, rows)
    heads = _by_head(build, channels, sizes)
    into, out_of = (_group_part(build, channels, sizes) for _ in range(2))
    step = graph.add(graph.cont(step), build.weight(f"{name}.ssm_dt.bias"))
    decay = build.weight(f"{name}.ssm_a")
    y = _scan_states(build, layer, rows, sizes, heads, step, decay, into, out_of)
    y = graph.add(_scan_outputs(build, y, sizes), graph.mul(heads, build.weight(f"{name}.ssm_d")))
    y = graph.glu(graph.cont(gate), y)
    if build.has(f"{name}.ssm_norm.weight"):
        y = graph.reshape(y, sizes.inner // sizes.groups, sizes.groups, sizes.tokens, sizes.sequences)
        y = build.norm(y, f"{name}.ssm_norm")
    return graph.reshape(y, sizes.inner, sizes.tokens, sizes.sequences)


def _plamo_2(build: Build, layer: int, x: Node, rows: StateRows) -> Node:
    """Heads as in Mamba 2, but their steps and ways come from a second matrix as in Mamba."""
    graph, name = build.graph, build.block(layer)
    sizes = _sizes(build, build.size("ssm.time_step_rank"), 1)
    joined = graph.permute(build.linear(x, f"{name}.ssm_in"), 0, 2, 1, 3)
    joined = graph.cont(joined, 2 * sizes.head_length, *sizes.by_head[1:])
    inputs, gate = (graph.view(joined, sizes.by_head, joined.strides[1:]) for _ in range(2))
    inputs = graph.cont(inputs, sizes.inner, sizes.tokens, sizes.sequences)
    x = _convolve(build, layer, inputs, rows)
    parts = build.linear(x, f"{name}.ssm_x")
    widths = sizes.state, sizes.state, parts.shape[0] - 2 * sizes.state
    into, out_of, step = (
        build.norm(_part(build, parts, width), f"{name}.ssm_{part}_norm")
        for part, width in zip(("b", "c", "dt"), widths, strict=True)
    )
    step = build.linear(step, f"{name}.ssm_dt")
    decay = graph.reshape(build.weight(f"{name}.ssm_a"), 1, sizes.heads)
    heads = _by_head(build, x, sizes)
    into, out_of = (_group_part(build, n, sizes) for n in (into, out_of))
    y = _scan_states(build, layer, rows, sizes, heads, step, decay, into, out_of)
    skipped = graph.mul(heads, graph.reshape(build.weight(f"{name}.ssm_d"), 1, sizes.heads))
    y = graph.glu(graph.cont(gate), graph.add(_scan_outputs(build, y, sizes), skipped))
    return graph.view(y, (sizes.inner, sizes.tokens, sizes.sequences), y.strides[2:4])


def _sizes(build: Build, heads: int, groups: int) -> _Sizes:
    state, inner = build.size("ssm.state_size"), build.size("ssm.inner_size")
    return _Sizes(state, inner, heads, groups, build.sequence_tokens, build.settings.slots)


def _convolve(build: Build, layer: int, inputs: Node, rows: StateRows) -> Node:
    name = f"{build.block(layer)}.ssm_conv1d"
    kernel = build.weight(f"{name}.weight")
    x = convolve(build, with_last_inputs(build, layer, rows, inputs, kernel.shape[0]), kernel)
    if build.has(f"{name}.bias"):
        x = build.graph.add(x, build.weight(f"{name}.bias"))
    return build.graph.unary(x)


def _scan_states(build: Build, layer: int, rows: StateRows, sizes: _Sizes, x: Node, *scanned: Node) -> Node:
    """The outputs of all tokens, and behind them the states after the last one, which are written back."""
    graph, cache = build.graph, memory_cache(build, layer)
    states_elements = sizes.state * sizes.inner * sizes.sequences

    def scan(states: Node, used: Node) -> Node:
        states = graph.reshape(states, sizes.state, sizes.head_length, sizes.heads, states.shape[1])
        return graph.special("ssm_scan", (x.elements + states_elements, 1, 1, 1), states, x, *scanned, used)

    y = load_state(build, cache, rows, scan)
    store_state(build, cache, graph.view(y, (states_elements,)))
    return y


def _part(build: Build, joined: Node, width: int) -> Node:
    """A part of what a product gave for each token."""
    return build.graph.view(joined, (width, *joined.shape[1:3]), joined.strides[1:3])


def _by_head(build: Build, joined: Node, sizes: _Sizes) -> Node:
    """As `_part`, of all channels, head by head."""
    strides = (row_bytes("F32", sizes.head_length), *joined.strides[1:3])
    return build.graph.view(joined, sizes.by_head, strides)


def _group_part(build: Build, joined: Node, sizes: _Sizes) -> Node:
    """As `_part`, of the ways into or out of the state, group by group."""
    shape = (sizes.state, sizes.groups, sizes.tokens, sizes.sequences)
    return build.graph.view(joined, shape, (row_bytes("F32", sizes.state), *joined.strides[1:3]))


def _scan_outputs(build: Build, y: Node, sizes: _Sizes) -> Node:
    """The outputs at the start of what a scan gave."""
    row = row_bytes("F32", sizes.head_length)
    strides = (row, row * sizes.heads, row * sizes.heads * sizes.tokens)
    return build.graph.view(y, sizes.by_head, strides)


def short_convolution(build: Build, layer: int, x: Node, rows: StateRows) -> Node:
    """A whole layer: three parts by one product, of which one is convolved and two are gates."""
    graph, name = build.graph, f"{build.block(layer)}.shortconv"
    joined = build.linear(by_sequence(build, x), f"{name}.in_proj")
    shape = (joined.shape[0] // 3, *joined.shape[1:3])
    before, after, inner = (graph.view(joined, shape, joined.strides[1:3]) for _ in range(3))
    kernel = build.weight(f"{name}.conv.weight")
    inputs = with_last_inputs(build, layer, rows, graph.mul(before, inner), kernel.shape[0])
    y = build.linear(graph.mul(after, convolve(build, inputs, kernel)), f"{name}.out_proj")
    return graph.reshape(y, y.shape[0], build.tokens)


def with_last_inputs(build: Build, layer: int, rows: StateRows, x: Node, kernel: int) -> Node:
    """The inputs of a convolution, (tokens, channels, sequences), after the last ones of the batch before."""
    graph = build.graph
    channels, sequences = x.shape[0], x.shape[2]
    cache = convolution_cache(build, layer)
    before = graph.reshape(load_state(build, cache, rows), kernel - 1, channels, sequences)
    joined = graph.concat(before, graph.transpose(x), 0)
    last = graph.view(joined, (kernel - 1, channels, sequences), joined.strides[1:3])
    store_state(build, cache, last)
    return joined


def convolve(build: Build, inputs: Node, kernel: Node) -> Node:
    """Each channel summed up over as many tokens as the kernel is long: (channels, tokens, sequences)."""
    tokens = inputs.shape[0] - kernel.shape[0] + 1
    return build.graph.special("ssm_conv", (inputs.shape[1], tokens, inputs.shape[2], 1), inputs, kernel)


def by_sequence(build: Build, x: Node) -> Node:
    """The tokens of a batch divided among its sequences: (width, tokens, sequences)."""
    return build.graph.reshape(x, x.shape[0], build.sequence_tokens, build.settings.slots)


def load_state(build: Build, cache: Node, rows: StateRows, read: Callable[[Node, Node], Node] | None = None) -> Node:
    """The states of this batch's sequences, copied out of the cache; or what `read` makes of the states and rows."""
    graph = build.graph
    elements, sequences = cache.shape[:2]
    states = graph.reshape(cache, elements, sequences)
    fresh = graph.view(states, (elements,))
    graph.expand(graph.write_over("scale", fresh, fresh))
    result = graph.expand((read or graph.get_rows)(states, rows.used))
    others = graph.get_rows(states, rows.others)
    target = graph.view(cache, (elements, 0), (cache.strides[1],))
    graph.expand(graph.write_over("cpy", target, others, target))
    return result


def store_state(build: Build, cache: Node, state: Node) -> None:
    """Write the states back."""
    target = build.graph.view(cache, cache.shape[:2], (cache.strides[1],))
    build.graph.expand(build.graph.write_over("cpy", target, state, target))


def convolution_cache(build: Build, layer: int) -> Node:
    """The last inputs of a layer's convolution, of all sequences."""
    return build.cache_tensor("F32", layer, build.hyper.convolution_elements, build.settings.slots)


def memory_cache(build: Build, layer: int) -> Node:
    """What a layer carries from token to token, of all sequences."""
    return build.cache_tensor("F32", layer, build.hyper.memory_elements, build.settings.slots)
