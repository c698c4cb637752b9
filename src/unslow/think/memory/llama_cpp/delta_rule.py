"""The delta rule: a memory, one matrix for each head, that fades and is corrected token by token.

One kernel computes it where the layer's device has one. Elsewhere llama.cpp spells it out: chunk by chunk for a
prompt, where a chunk's tokens are solved for together, or step by step for single tokens.
"""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.graph import Graph, UnknownLayoutError
from unslow.think.memory.llama_cpp.node import Node, row_bytes

_CHUNK, _CHUNK_BY_CHANNEL = 64, 16
"""Tokens of a chunk: where a head fades as a whole, and where each of its channels fades by itself."""
_MOST_CHUNKS = 1024
"""Beyond that a graph would take seconds to lay out."""


class Heads(NamedTuple):
    """What each token brings: (length, heads, tokens, sequences)."""

    query: Node
    key: Node
    value: Node
    decay: Node
    """How fast the memory fades: one number for each head, or one for each channel."""
    strength: Node
    """How strongly the token writes into the memory."""


class Answer(NamedTuple):
    """What each token reads, and the memory after the last one."""

    output: Node
    memory: Node


def delta_rule(build: Build, layer: int, heads: Heads, memory: Node) -> Answer:
    """As one kernel, or spelled out; the memory is (length, length, heads, sequences)."""
    single = heads.query.shape[2] == 1
    if build.kernels.delta_step if single else build.kernels.delta_chunk:
        return _fused(build, layer, heads, memory)
    return _step(build.graph, heads, memory) if single else _chunks(build.graph, heads, memory)


def _fused(build: Build, layer: int, heads: Heads, memory: Node) -> Answer:
    graph = build.graph
    length, count, tokens, sequences = heads.value.shape
    width = length * count
    result = graph.special("gated_delta_net", (width, (tokens + length) * sequences, 1, 1), *heads, memory)
    build.fused.append((layer, result))
    row = row_bytes("F32", width)
    output = graph.view(result, heads.value.shape, (row_bytes("F32", length), row, row * tokens))
    return Answer(output, graph.view(result, memory.shape))


def _step(graph: Graph, heads: Heads, memory: Node) -> Answer:
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
    return Answer(graph.permute(output, 2, 0, 1, 3), memory)


def _chunks(graph: Graph, heads: Heads, memory: Node) -> Answer:
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
        values = _set(values, graph.add(before, within))
        written = graph.mul_mat(_slice(graph, chunks.writing_keys), news)
        memory = graph.add(graph.mul(memory, _slice(graph, chunks.remains)), written)
    row = row_bytes("F32", length)
    padded_tokens = chunks.count * chunks.size
    strides = row, row * padded_tokens, row * padded_tokens * count
    output = graph.permute(graph.view(values, (length, tokens, count, sequences), strides), 0, 2, 1, 3)
    return Answer(output, graph.reshape(memory, length, length, count, sequences))


class _Chunks:
    """What is computed for all chunks at once, each with a dimension of chunks and one of heads and sequences."""

    def __init__(self, graph: Graph, heads: Heads) -> None:
        self._graph = graph
        by_channel = heads.decay.shape[:2] == heads.query.shape[:2]
        self.size = _CHUNK_BY_CHANNEL if by_channel else _CHUNK
        self.count = -(-heads.query.shape[2] // self.size)
        if self.count > _MOST_CHUNKS:
            raise UnknownLayoutError(f"{self.count} chunks of a delta network are too many to lay out")
        query, key, value, decay, strength = (self._padded(n) for n in (graph.scale(heads.query), *heads[1:]))
        strong_values, strong_keys = (self._cut(graph.mul(n, strength)) for n in (value, key))
        query, key = self._cut(query), self._cut(key)
        faded = graph.unary(graph.cont(graph.transpose(self._cut(decay))), "cumsum")
        within = self._by_channel if by_channel else self._by_head
        key_scores, scores = within(faded, query, key, strong_keys)
        self.scores = _lower(graph, scores)
        """How much each token of a chunk asks of each one before it."""
        solved = self._solved(_lower(graph, key_scores))
        self.values = graph.mul_mat(graph.cont(graph.transpose(strong_values)), solved)
        self._fade(faded, query, key, strong_keys, solved)

    def _padded(self, x: Node) -> Node:
        """By head instead of by token, filled up to whole chunks."""
        graph = self._graph
        x = graph.permute(x, 0, 2, 1, 3)
        return graph.pad(x, 0, self.count * self.size - x.shape[1])

    def _cut(self, x: Node) -> Node:
        """(length, tokens of a chunk, chunks, heads and sequences)."""
        return self._graph.reshape(x, x.shape[0], self.size, self.count, x.shape[2] * x.shape[3])

    def _by_head(self, faded: Node, query: Node, key: Node, strong_keys: Node) -> tuple[Node, Node]:
        """The scores of keys and queries, where a head fades as a whole."""
        graph, size = self._graph, self.size
        rows = graph.reshape(faded, 1, size, *faded.shape[2:])
        decay = self._between(graph.repeat(rows, size, size, *faded.shape[2:]), faded)
        key_scores = graph.mul(graph.mul_mat(key, strong_keys), decay)
        return key_scores, graph.mul(graph.mul_mat(key, query), decay)

    def _by_channel(self, faded: Node, query: Node, key: Node, strong_keys: Node) -> tuple[Node, Node]:
        """The same where each channel fades by itself: the product over channels comes last."""
        graph, size, length = self._graph, self.size, query.shape[0]
        all_chunks = self.count * query.shape[3]
        columns = graph.reshape(faded, size, 1, length, all_chunks)
        rows = graph.reshape(faded, 1, size, length, all_chunks)
        decay = self._between(graph.repeat(rows, size, size, length, all_chunks), columns)
        decay = graph.cont(graph.permute(decay, 2, 1, 0, 3), length, size, size, all_chunks)
        strong_keys, query = (graph.reshape(n, length, size, 1, all_chunks) for n in (strong_keys, query))
        single = graph.reshape(key, length, 1, size, all_chunks)
        products = [graph.mul_mat(graph.mul(decay, n), single) for n in (strong_keys, query)]
        shape = size, size, self.count, key.shape[3]
        key_scores, scores = (graph.cont(graph.transpose(graph.reshape(n, *shape))) for n in products)
        return key_scores, scores

    def _between(self, rows: Node, columns: Node) -> Node:
        """What is left of each token's writing when each later one reads."""
        graph = self._graph
        return graph.unary(_lower(graph, graph.binary("sub", rows, columns)))

    def _solved(self, scores: Node) -> Node:
        """What each token writes once the writing of those before it in the chunk is known."""
        graph = self._graph
        ones = graph.unary(graph.view(scores, (self.size,)), "fill")
        identity = graph.special("diag", (self.size, self.size, 1, 1), ones)
        left = graph.add(scores, identity)
        right = graph.unary(scores)
        return graph.add(graph.special("solve_tri", right.shape, left, right), identity)

    def _fade(self, faded: Node, query: Node, key: Node, strong_keys: Node, solved: Node) -> None:
        """Queries and keys as the memory before or after the chunk sees them."""
        graph = self._graph
        decay = graph.unary(faded)
        transposed_keys = graph.cont(graph.transpose(strong_keys))
        self.faded_keys = graph.mul_mat(graph.mul(transposed_keys, decay), solved)
        self.faded_queries = graph.mul(query, graph.cont(graph.transpose(decay)))
        last = graph.cont(graph.view(faded, (1, *faded.shape[1:]), faded.strides[1:]))
        self.remains = graph.transpose(graph.unary(last))
        """What is left of the memory after the chunk."""
        rest = graph.unary(graph.unary(graph.binary("sub", faded, last)))
        writing = graph.mul(key, graph.cont(graph.transpose(rest)))
        self.writing_keys = graph.cont(graph.transpose(writing))


def _lower(graph: Graph, x: Node) -> Node:
    """Zeros above the diagonal."""
    return graph.unary(x, "tri")


def _slice(graph: Graph, x: Node) -> Node:
    """One chunk."""
    return graph.view(x, (x.shape[0], x.shape[1], 1, x.shape[3]), x.strides[1:])


def _set(table: Node, part: Node) -> Node:
    """A part of a tensor written over; the result is that tensor."""
    return Node("set", table.kind, table.shape, (table, part), strides=table.strides, view_of=table)
