"""The product of queries, keys and values, in one kernel or spelled out."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node


class Extras(NamedTuple):
    """What only some models add to attention."""

    value_matrix: Node | None = None
    """Brings compressed values back to a head's own, in latent attention."""
    picked: Node | None = None
    """The places in the cache that each query sees; none for all."""
    score_bias: Node | None = None
    """Added to the scores, such as a bias for each distance; no kernel can do that."""


NO_EXTRAS = Extras()


class Operands(NamedTuple):
    """What attention is computed of: (length, heads, tokens, streams), but for the mask."""

    query: Node
    keys: Node
    values: Node
    mask: Node


def product(build: Build, layer: int, operands: Operands, extras: Extras = NO_EXTRAS) -> Node:
    """Each query's mean of the values, weighed by its scores: (heads x length, tokens)."""
    graph, query, keys = build.graph, operands.query, operands.keys
    streams = keys.shape[3]
    length, heads, tokens = query.shape[:3]
    per_stream = tokens // streams
    strides = (query.strides[1], query.strides[2], query.strides[2] * per_stream)
    query = graph.view(query, (length, heads, per_stream, streams), strides)
    transposed = operands.values.strides[1] > operands.values.strides[2]
    query, keys, values = (graph.permute(n, 0, 2, 1, 3) for n in (query, keys, operands.values))
    operands = Operands(query, keys, values, operands.mask)
    if build.kernels.flash_attention and extras.score_bias is None:
        return graph.expand(_flash(build, layer, operands, extras))
    if not transposed:
        operands = operands._replace(values=graph.cont(graph.transpose(values)))
    return graph.expand(_by_hand(build, layer, operands, extras))


def _sinks(build: Build, layer: int) -> Node | None:
    name = f"{build.block(layer)}.attn_sinks.weight"
    return build.weight(name) if build.has(name) else None


def _flash(build: Build, layer: int, operands: Operands, extras: Extras) -> Node:
    """In one kernel."""
    graph = build.graph
    keys, values = (graph.cast(n, "F16") if n.kind == "F32" else n for n in (operands.keys, operands.values))
    result = graph.flash_attn(operands.query, keys, values, operands.mask, _sinks(build, layer))
    build.fused.append((layer, result))
    if extras.value_matrix is not None:
        result = graph.mul_mat(extras.value_matrix, graph.permute(result, 0, 2, 1, 3))
        result = graph.cont(graph.permute(result, 0, 2, 1, 3))
    a, b, c, d = result.shape
    return graph.reshape(result, a * b, c * d)


def _by_hand(build: Build, layer: int, operands: Operands, extras: Extras) -> Node:
    """Scores, softmax and sum one after the other; the scores of all heads are the largest tensor by far."""
    graph = build.graph
    scores = graph.mul_mat(operands.keys, operands.query)
    if build.hyper.caps_scores:
        scores = graph.scale(graph.unary(graph.scale(scores)))
    if extras.score_bias is not None:
        scores = graph.add(scores, extras.score_bias)
    scores = graph.soft_max(scores, operands.mask, _sinks(build, layer))
    result = graph.mul_mat(operands.values, scores)
    if extras.value_matrix is not None:
        result = graph.mul_mat(extras.value_matrix, result)
    result = graph.permute(result, 0, 2, 1, 3)
    a, b, c, d = result.shape
    return graph.cont(result, a * b, c * d)
