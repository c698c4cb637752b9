"""Kimi: delta attention whose channels fade one by one, and residual attention over earlier layers."""

from collections.abc import Callable

from unslow.think.memory.llama_cpp import recurrent
from unslow.think.memory.llama_cpp.cache import Build
from unslow.think.memory.llama_cpp.delta_net import Heads, delta_rule
from unslow.think.memory.llama_cpp.feed_forward import feed_forward
from unslow.think.memory.llama_cpp.graph import Node, row_bytes


def kimi_delta(build: Build, layer: int, x: Node, rows: recurrent.StateRows) -> Node:
    """A whole layer, with its projections."""
    graph, name = build.graph, build.block(layer)
    length, heads = build.size("kda.head_dim"), build.hyper.heads[layer]
    shape = length, heads, build.sequence_tokens, build.settings.slots
    if not build.hyper.habits.loads_states_first:
        graph.expand(x)
    query, key, value = _projections(build, layer, x, rows, shape)
    # How fast each channel fades; a lower bound keeps it from fading at once (Kimi K3, Ling 3)
    bounded = bool(build.hyper.blueprint.number("kda.gate_lower_bound"))
    rate = build.linear(x, f"{name}.ssm_f_a")
    if build.has(f"{name}.ssm_f_b.weight"):
        rate = build.linear(rate, f"{name}.ssm_f_b")
    rate = graph.add(rate, build.weight(f"{name}.ssm_dt.bias"))
    rate = graph.reshape(rate if bounded else graph.unary(rate), length, heads, build.tokens)
    decay = graph.mul(rate, graph.reshape(build.weight(f"{name}.ssm_a"), 1, heads, 1))
    decay = graph.reshape(graph.scale(graph.unary(decay)) if bounded else decay, *shape)
    strength = graph.unary(graph.reshape(build.linear(x, f"{name}.ssm_beta"), 1, *shape[1:]))
    cache = recurrent.memory_cache(build, layer)
    memory = graph.reshape(recurrent.load_state(build, cache, rows), length, length, heads, shape[3])
    query, key = (graph.norm(n, "l2_norm") for n in (query, key))
    output, memory = delta_rule(build, layer, Heads(query, key, value, decay, strength), memory)
    recurrent.store_state(build, cache, memory)
    output = graph.reshape(graph.cont(output), length, heads, build.tokens)
    if build.has(f"{name}.ssm_g.weight"):
        gate = build.linear(x, f"{name}.ssm_g")
    else:  # two products with a narrow middle
        gate = build.linear(x, f"{name}.ssm_g_a")
        gate = build.linear(gate, f"{name}.ssm_g_b") if build.has(f"{name}.ssm_g_b.weight") else gate
    gate = graph.reshape(gate, length, heads, build.tokens)
    output = graph.mul(build.norm(output, f"{name}.ssm_norm"), graph.unary(gate))
    return build.linear(graph.cont(output, length * heads, build.tokens), f"{name}.attn_output")


def _projections(
    build: Build, layer: int, x: Node, rows: recurrent.StateRows, shape: tuple[int, int, int, int]
) -> tuple[Node, Node, Node]:
    """Queries, keys and values, each after a convolution of its own; their last inputs lie in one state."""
    graph, name = build.graph, build.block(layer)
    cache = recurrent.convolution_cache(build, layer)
    states = recurrent.load_state(build, cache, rows)

    def part(letter: str) -> Node:
        kernel = build.weight(f"{name}.ssm_conv1d_{letter}.weight")
        kernel = graph.reshape(kernel, kernel.shape[0], shape[0] * shape[1])
        inputs = recurrent.by_sequence(build, build.linear(x, f"{name}.attn_{letter}"))
        last = kernel.shape[0] - 1, *inputs.shape[0:3:2]
        strides = row_bytes("F32", last[0]), states.strides[1]
        joined = graph.concat(graph.view(states, last, strides), graph.transpose(inputs), 0)
        target, newest = graph.view(cache, last, strides), graph.view(joined, last, joined.strides[1:3])
        graph.expand(graph.write_over("cpy", target, newest, target))
        channels = graph.reshape(recurrent.convolve(build, joined, kernel), kernel.shape[1], build.tokens)
        return graph.reshape(graph.unary(channels), *shape)

    return part("q"), part("k"), part("v")


class ResidualAttention:
    """The layers of a model, in their order; every few of them the sum is put aside and begins anew."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._period = build.size("attn_res.block_size")
        self._kept: Node | None = None  # The sums put aside so far: (width, sums, tokens)

    def begin(self, x: Node) -> Node:
        """The first sum: the embeddings."""
        return x

    def layer(self, layer: int, x: Node, mix: Callable[[Node], Node]) -> Node:
        """A whole layer; `x` is the sum so far."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        read = self._mix_residuals(x, f"{name}.attn_res_score")
        anew = layer % self._period == 0
        if anew:
            sums = graph.reshape(x, x.shape[0], 1, x.shape[1])
            self._kept = sums if self._kept is None else graph.concat(self._kept, sums, 1)
        mixed = mix(build.norm(read, f"{name}.attn_norm"))
        x = mixed if anew else graph.add(x, mixed)
        read = self._mix_residuals(x, f"{name}.ffn_res_score")
        return graph.add(x, feed_forward(build, layer, build.norm(read, f"{name}.ffn_norm")))

    def end(self, x: Node) -> Node:
        """What the last norm reads: the last mix, of the wanted tokens."""
        return self._build.graph.get_rows(self._mix_residuals(x, "output_res_score"), self._build.wanted)

    def _mix_residuals(self, x: Node, name: str) -> Node:
        """The sum so far and all kept ones, weighed by their scores."""
        graph, kept = self._build.graph, self._kept
        if kept is None:
            return x
        width, count, tokens = kept.shape[:3]
        weight = self._build.weight(f"{name}.weight")
        of_kept, of_x = (graph.sum_rows(graph.mul(graph.norm(n), weight)) for n in (kept, x))
        shares = graph.soft_max(graph.concat(graph.reshape(of_kept, count, tokens), of_x, 0))
        of_kept, of_x = (graph.cont(graph.view(shares, (n, tokens), (shares.strides[1],))) for n in (count, 1))
        mixed = graph.special("dsv4_hc_pre", (width, tokens, 1, 1), kept, of_kept)
        return graph.add(mixed, graph.mul(x, of_x))
