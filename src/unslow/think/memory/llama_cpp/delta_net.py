"""Gated delta networks (Qwen3-Next, Qwen3.5): a matrix for each head that fades and is corrected token by token."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp import recurrent
from unslow.think.memory.llama_cpp.cache import Build
from unslow.think.memory.llama_cpp.graph import Graph, Node, UnknownLayoutError, row_bytes

_CHUNK, _CHUNK_BY_CHANNEL = 64, 16  # Tokens of a chunk: where heads fade as a whole, and where channels fade one by one
_MOST_CHUNKS = 1024  # beyond that a graph would take seconds to lay out


class Heads(NamedTuple):
    """What each token brings: (length, heads, tokens, sequences)."""

    query: Node
    key: Node
    value: Node
    decay: Node  # How fast the memory fades: one number for each head, or one for each channel
    strength: Node  # How strongly the token writes into the memory


class _Sizes(NamedTuple):
    key_length: int
    key_heads: int
    value_length: int
    value_heads: int
    tokens: int
    sequences: int

    @property
    def values_per_key(self) -> int:
        return self.value_heads // self.key_heads

    @property
    def values(self) -> tuple[int, int, int, int]:
        """The shape of all values."""
        return self.value_length, self.value_heads, self.tokens, self.sequences


def delta_net(build: Build, layer: int, x: Node, rows: recurrent.StateRows) -> Node:
    """A whole linear-attention layer, with its projections."""
    graph, name, value_heads = build.graph, build.block(layer), build.size("ssm.time_step_rank")
    key_length, key_heads = build.size("ssm.state_size"), build.size("ssm.group_count")
    value_length = build.size("ssm.inner_size") // value_heads
    sizes = _Sizes(key_length, key_heads, value_length, value_heads, build.sequence_tokens, build.settings.slots)
    graph.expand(x)
    mixed, gate = _projections(build, layer, x, sizes)
    strength, decay = _strength_and_decay(build, layer, x, sizes)
    kernel = build.weight(f"{name}.ssm_conv1d.weight")
    inputs = recurrent.with_last_inputs(build, layer, rows, mixed, kernel.shape[0])
    cache = recurrent.memory_cache(build, layer)
    memory = recurrent.load_state(build, cache, rows)
    memory = graph.reshape(memory, sizes.value_length, sizes.value_length, sizes.value_heads, sizes.sequences)
    query, key, value = _heads(build, layer, graph.unary(recurrent.convolve(build, inputs, kernel)), sizes)
    output, memory = delta_rule(build, layer, Heads(query, key, value, decay, strength), memory)
    recurrent.store_state(build, cache, memory)
    normed = build.norm(output, f"{name}.ssm_norm")
    output = graph.mul(normed, graph.unary(graph.reshape(gate, *sizes.values)))
    output = graph.reshape(output, sizes.value_length * sizes.value_heads, sizes.tokens, sizes.sequences)
    return graph.reshape(build.linear(output, f"{name}.ssm_out"), build.hyper.width, build.tokens)


def _projections(build: Build, layer: int, x: Node, sizes: _Sizes) -> tuple[Node, Node]:
    graph, name = build.graph, build.block(layer)
    if not build.has(f"{name}.attn_qkv.weight"):
        # The same of older files: one product, in which all parts of a key head lie side by side
        joined = build.linear(x, f"{name}.ssm_in")
        by_head = sizes.key_heads, sizes.tokens, sizes.sequences
        joined = graph.reshape(joined, joined.shape[0] // sizes.key_heads, *by_head)
        lengths = (*(sizes.key_length,) * 2, *(sizes.value_length * sizes.values_per_key,) * 2)
        query, key, value, gate = (graph.view(joined, (n, *by_head), joined.strides[1:]) for n in lengths)
        gate = graph.cont(gate)
        query, key, value = (
            graph.cont(n, n.shape[0] * sizes.key_heads, sizes.tokens, sizes.sequences) for n in (query, key, value)
        )
        return graph.concat(graph.concat(query, key, 0), value, 0), gate
    mixed = build.linear(x, f"{name}.attn_qkv")
    return recurrent.by_sequence(build, mixed), build.linear(x, f"{name}.attn_gate")


def _strength_and_decay(build: Build, layer: int, x: Node, sizes: _Sizes) -> tuple[Node, Node]:
    """How strongly a token writes into the memory, and how fast the memory fades."""
    graph, name, shape = build.graph, build.block(layer), sizes.values[1:]
    if build.has(f"{name}.ssm_ba.weight"):  # by one product, in which those of a key head lie side by side
        by_head = sizes.key_heads, sizes.tokens, sizes.sequences
        joined = graph.reshape(build.linear(x, f"{name}.ssm_ba"), 2 * sizes.values_per_key, *by_head)
        strength, rate = (graph.view(joined, (sizes.values_per_key, *by_head), joined.strides[1:]) for _ in range(2))
        strength, rate = graph.cont(strength), graph.cont(rate, *shape)
    else:
        strength = graph.reshape(build.linear(x, f"{name}.ssm_beta"), 1, *shape)
        rate = graph.reshape(build.linear(x, f"{name}.ssm_alpha"), *shape)
    rate = graph.unary(graph.add(rate, build.weight(f"{name}.ssm_dt.bias")))
    decay = graph.mul(rate, build.weight(f"{name}.ssm_a"))
    return graph.reshape(graph.unary(strength), 1, *shape), graph.reshape(decay, 1, *shape)


def _heads(build: Build, layer: int, channels: Node, sizes: _Sizes) -> tuple[Node, Node, Node]:
    graph, row = build.graph, channels.strides[1]
    keys, values = (sizes.key_length, sizes.key_heads), (sizes.value_length, sizes.value_heads)
    query, key, value = (
        graph.view(
            channels,
            (length, count, sizes.tokens, sizes.sequences),
            (row_bytes("F32", length), row, row * sizes.tokens),
        )
        for length, count in (keys, keys, values)
    )
    query, key = (graph.norm(n, "l2_norm") for n in (query, key))
    if sizes.values_per_key > 1:
        query, key = (_repeat_key_heads(build, layer, n, sizes) for n in (query, key))
    return query, key, value


def _repeat_key_heads(build: Build, layer: int, x: Node, sizes: _Sizes) -> Node:
    """A key head for each value head, where the delta rule does not share them by itself."""
    graph, kernels = build.graph, build.kernels
    shape = (sizes.key_length, *sizes.values[1:])
    if build.has(f"{build.block(layer)}.ssm_ba.weight"):  # the value heads of a key head follow each other
        apart = sizes.key_length, 1, sizes.key_heads, sizes.tokens * sizes.sequences
        whole = sizes.key_length, sizes.values_per_key, sizes.key_heads, sizes.tokens * sizes.sequences
        return graph.reshape(graph.repeat(graph.reshape(x, *apart), *whole), *shape)
    return x if kernels.delta_step and kernels.delta_chunk else graph.repeat(x, *shape)


def delta_rule(build: Build, layer: int, heads: Heads, memory: Node) -> tuple[Node, Node]:
    """What each token reads, and the memory after the last one: (length, length, heads, sequences)."""
    # One kernel computes it where the layer's device has one. Elsewhere llama.cpp spells it out: chunk by chunk for a
    # prompt, where a chunk's tokens are solved for together, or step by step for single tokens.
    single = heads.query.shape[2] == 1
    if build.kernels.delta_step if single else build.kernels.delta_chunk:
        graph = build.graph
        length, count, tokens, sequences = heads.value.shape
        width = length * count
        result = graph.special("gated_delta_net", (width, (tokens + length) * sequences, 1, 1), *heads, memory)
        build.fused.append((layer, result))
        row = row_bytes("F32", width)
        output = graph.view(result, heads.value.shape, (row_bytes("F32", length), row, row * tokens))
        return output, graph.view(result, memory.shape)
    return _step(build.graph, heads, memory) if single else _chunks(build.graph, heads, memory)


def _step(graph: Graph, heads: Heads, memory: Node) -> tuple[Node, Node]:
    """One token for each sequence."""
    count, sequences = memory.shape[2:]
    query, key, value = (graph.permute(n, 0, 2, 1, 3) for n in (graph.scale(heads.query), heads.key, heads.value))
    decay = graph.unary(graph.reshape(heads.decay, 1, heads.decay.shape[0], count, sequences))
    strength = graph.reshape(heads.strength, 1, 1, count, sequences)
    memory = graph.mul(memory, decay)
    known = graph.sum_rows(graph.mul(memory, key))
    news = graph.mul(graph.binary("sub", value, graph.transpose(known)), strength)
    written = graph.mul(graph.repeat(key, *memory.shape), graph.transpose(news))
    memory = graph.add(memory, written)
    output = graph.sum_rows(graph.mul(memory, query))
    return graph.permute(output, 2, 0, 1, 3), memory


def _chunks(graph: Graph, heads: Heads, memory: Node) -> tuple[Node, Node]:
    """A prompt: what the tokens of a chunk do to each other first, for all chunks, then chunk after chunk."""
    length, count, tokens, sequences = heads.value.shape
    chunks = _Chunks(graph, heads)
    memory = graph.reshape(memory, length, length, 1, count * sequences)
    values = chunks.values
    transposed = graph.cont(graph.transpose(values))
    for _ in range(chunks.count):
        correction = graph.mul_mat(_slice(graph, chunks.faded_keys), memory)
        news = graph.binary("sub", _slice(graph, transposed), correction)
        within = graph.mul_mat(news, _slice(graph, chunks.scores))
        before = graph.mul_mat(memory, _slice(graph, chunks.faded_queries))
        values = graph.write_over("set", values, values, graph.add(before, within))  # a part of it
        written = graph.mul_mat(_slice(graph, chunks.writing_keys), news)
        memory = graph.add(graph.mul(memory, _slice(graph, chunks.remains)), written)
    row = row_bytes("F32", length)
    padded_tokens = chunks.count * chunks.size
    strides = row, row * padded_tokens, row * padded_tokens * count
    output = graph.permute(graph.view(values, (length, tokens, count, sequences), strides), 0, 2, 1, 3)
    return output, graph.reshape(memory, length, length, count, sequences)


class _Chunks:
    """What is computed for all chunks at once, each with a dimension of chunks and one of heads and sequences."""

    def __init__(self, graph: Graph, heads: Heads) -> None:
        self._graph = graph
        by_channel = heads.decay.shape[:2] == heads.query.shape[:2]
        self.size = _CHUNK_BY_CHANNEL if by_channel else _CHUNK
        self.count = -(-heads.query.shape[2] // self.size)
        if self.count > _MOST_CHUNKS:
            raise UnknownLayoutError(f"{self.count} chunks of a delta network are too many")
        # By head instead of by token, filled up to whole chunks
        by_head = [graph.permute(n, 0, 2, 1, 3) for n in (graph.scale(heads.query), *heads[1:])]
        padded = (graph.pad(n, 0, self.count * self.size - n.shape[1]) for n in by_head)
        query, key, value, decay, strength = padded
        strong_values, strong_keys = (self._cut(graph.mul(n, strength)) for n in (value, key))
        query, key = self._cut(query), self._cut(key)
        faded = graph.unary(graph.cont(graph.transpose(self._cut(decay))), "cumsum")
        within = self._by_channel if by_channel else self._by_head
        key_scores, scores = within(faded, query, key, strong_keys)
        self.scores = graph.unary(scores, "tri")  # How much each token of a chunk asks of each one before it
        # What each token writes once the writing of those before it in the chunk is known
        left = graph.unary(key_scores, "tri")
        ones = graph.unary(graph.view(left, (self.size,)), "fill")
        identity = graph.special("diag", (self.size, self.size, 1, 1), ones)
        unsolved, right = graph.add(left, identity), graph.unary(left)
        solved = graph.add(graph.special("solve_tri", right.shape, unsolved, right), identity)
        self.values = graph.mul_mat(graph.cont(graph.transpose(strong_values)), solved)
        # Queries and keys as the memory before or after the chunk sees them
        decay = graph.unary(faded)
        transposed_keys = graph.cont(graph.transpose(strong_keys))
        self.faded_keys = graph.mul_mat(graph.mul(transposed_keys, decay), solved)
        self.faded_queries = graph.mul(query, graph.cont(graph.transpose(decay)))
        last = graph.cont(graph.view(faded, (1, *faded.shape[1:]), faded.strides[1:]))
        self.remains = graph.transpose(graph.unary(last))  # What is left of the memory after the chunk
        rest = graph.unary(graph.unary(graph.binary("sub", faded, last)))
        writing = graph.mul(key, graph.cont(graph.transpose(rest)))
        self.writing_keys = graph.cont(graph.transpose(writing))

    def _cut(self, x: Node) -> Node:
        """(length, tokens of a chunk, chunks, heads and sequences)."""
        return self._graph.reshape(x, x.shape[0], self.size, self.count, x.shape[2] * x.shape[3])

    def _by_head(self, faded: Node, query: Node, key: Node, strong_keys: Node) -> tuple[Node, Node]:
        """The scores of keys and queries, where a head fades as a whole."""
        graph, size = self._graph, self.size
        rows = graph.reshape(faded, 1, size, *faded.shape[2:])
        # What is left of each token's writing when each later one reads
        between = graph.binary("sub", graph.repeat(rows, size, size, *faded.shape[2:]), faded)
        decay = graph.unary(graph.unary(between, "tri"))
        key_scores = graph.mul(graph.mul_mat(key, strong_keys), decay)
        return key_scores, graph.mul(graph.mul_mat(key, query), decay)

    def _by_channel(self, faded: Node, query: Node, key: Node, strong_keys: Node) -> tuple[Node, Node]:
        """The same where each channel fades by itself: the product over channels comes last."""
        graph, size, length = self._graph, self.size, query.shape[0]
        all_chunks = self.count * query.shape[3]
        columns = graph.reshape(faded, size, 1, length, all_chunks)
        rows = graph.reshape(faded, 1, size, length, all_chunks)
        between = graph.binary("sub", graph.repeat(rows, size, size, length, all_chunks), columns)
        decay = graph.unary(graph.unary(between, "tri"))
        decay = graph.cont(graph.permute(decay, 2, 1, 0, 3), length, size, size, all_chunks)
        strong_keys, query = (graph.reshape(n, length, size, 1, all_chunks) for n in (strong_keys, query))
        single = graph.reshape(key, length, 1, size, all_chunks)
        products = [graph.mul_mat(graph.mul(decay, n), single) for n in (strong_keys, query)]
        shape = size, size, self.count, key.shape[3]
        key_scores, scores = (graph.cont(graph.transpose(graph.reshape(n, *shape))) for n in products)
        return key_scores, scores


def _slice(graph: Graph, x: Node) -> Node:
    return graph.view(x, (x.shape[0], x.shape[1], 1, x.shape[3]), x.strides[1:])
