"""Lightning attention (MiniMax-01): linear attention whose memory fades at a fixed rate for each head."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.graph import Graph
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.recurrent import StateRows, convolution_cache, loaded, memory_cache, stored


class _Heads(NamedTuple):
    """Queries, keys and values: (length, heads, tokens, sequences)."""

    query: Node
    key: Node
    value: Node


def lightning(build: Build, layer: int, x: Node, rows: StateRows) -> Node:
    """A whole layer, with its projections."""
    graph, name = build.graph, build.block(layer)
    loaded(build, convolution_cache(build, layer), rows)  # of no bytes: a layer here has no convolution
    x = graph.reshape(x, x.shape[0], build.sequence_tokens, 1, build.settings.slots)
    heads = _heads(build, layer, x)
    length, count, tokens, sequences = heads.query.shape
    cache = memory_cache(build, layer)
    memory = graph.reshape(loaded(build, cache, rows), length, length, count, sequences)
    rates = graph.scale(build.shared_input("F32", count, name="fading of each head"))
    answer = _step(graph, heads, memory, rates) if tokens == 1 else _chunk(build, heads, memory, rates)
    stored(build, cache, answer.memory)
    output = graph.cont(graph.permute(answer.output, 0, 2, 1, 3))
    output = build.norm(graph.reshape(output, length * count, tokens, 1, sequences), f"{name}.attn_norm_2")
    output = graph.mul(graph.unary(build.linear(x, f"{name}.attn_gate")), output)
    output = build.linear(output, f"{name}.attn_output")
    return graph.reshape(output, output.shape[0], build.tokens)


def _heads(build: Build, layer: int, x: Node) -> _Heads:
    """All three by one product, those of a head side by side."""
    graph, length = build.graph, build.hyper.key_length(layer)
    joined = graph.unary(build.linear(x, f"{build.block(layer)}.attn_qkv"))
    joined = graph.reshape(joined, 3 * length, build.hyper.heads[layer], x.shape[1], x.shape[3])
    query, key, value = (graph.view(joined, (length, *joined.shape[1:]), joined.strides[1:]) for _ in range(3))
    return _Heads(query, key, value)


class _Answer(NamedTuple):
    """What the tokens read, and the memory after them."""

    output: Node
    memory: Node


def _step(graph: Graph, heads: _Heads, memory: Node, rates: Node) -> _Answer:
    """One token for each sequence."""
    fading = _fading(graph, rates)
    value, key = (graph.cont(graph.permute(n, 1, 2, 0, 3)) for n in (heads.value, heads.key))
    memory = graph.add(graph.mul(memory, fading), graph.mul_mat(key, value))
    return _Answer(graph.mul_mat(memory, graph.permute(heads.query, 0, 2, 1, 3)), memory)


def _chunk(build: Build, heads: _Heads, memory: Node, rates: Node) -> _Answer:
    """A prompt: what its tokens say to each other, and what the memory says to them."""
    graph = build.graph
    _, count, tokens, sequences = heads.query.shape
    by_token = 1, count, tokens, sequences
    since, until, between = (
        graph.unary(graph.scale(build.shared_input("F32", *shape, name=f"fading {when}")))
        for when, shape in (
            ("since the start", by_token),
            ("until the end", by_token),
            ("between tokens", (tokens, tokens, count, sequences)),
        )
    )
    before = graph.mul_mat(memory, graph.permute(graph.mul(heads.query, since), 0, 2, 1, 3))
    query, key = (graph.permute(n, 0, 2, 1, 3) for n in (heads.query, heads.key))
    scores = graph.mul(graph.mul_mat(key, query), between)
    value = graph.cont(graph.permute(heads.value, 1, 2, 0, 3))
    output = graph.expand(graph.add(before, graph.mul_mat(value, scores)))
    faded = graph.mul(memory, _fading(graph, rates))
    written = graph.cont(graph.permute(graph.mul(heads.key, until), 1, 2, 0, 3))
    return _Answer(output, graph.add(faded, graph.mul_mat(written, value)))


def _fading(graph: Graph, rates: Node) -> Node:
    """What is left of each head's memory."""
    return graph.reshape(graph.unary(graph.scale(rates)), 1, 1, rates.shape[0])
