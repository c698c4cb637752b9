"""Sparse attention (DeepSeek 3.2, GLM 5): a small attention of its own picks the tokens that the large one sees."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.cache import cells_of
from unslow.think.memory.llama_cpp.cache_inputs import mask_input
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.stored import stored_index_keys


class Indexer:
    """The inputs that all layers with an indexer share, and the tokens that the last one picked."""

    def __init__(self, build: Build) -> None:
        graph, length = build.graph, build.hyper.index_length
        self._build = build
        self._key_rows = graph.input("I64", build.tokens, name="index rows")
        self._mask = mask_input(build, 0, "F16" if build.kernels.indexer else "F32")
        self._rotation = graph.input("F32", length, length, name="index rotation")
        self._picked: Node | None = None

    def picked(self, layer: int, x: Node, ranks: Node) -> Node | None:
        """The places in the cache that a layer's queries look at; a layer without an indexer takes the last one's."""
        build = self._build
        if build.hyper.windowed[layer]:
            return None
        if build.hyper.has_indexer(layer):
            keys = self._stored(layer, x)
            query, weights = self._queries(layer, x, ranks)
            self._picked = best_places(build, index_scores(build, layer, query, keys, weights, self._mask))
        return self._picked

    def _stored(self, layer: int, x: Node) -> Node:
        """The indexer's own keys, one head for all, after the new ones were written to their cache."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        length, cells = build.hyper.index_length, cells_of(build.hyper, build.settings, layer)
        key = build.norm(build.linear(x, f"{name}.indexer.attn_k"), f"{name}.indexer.k_norm", "norm")
        key = graph.rope(graph.reshape(key, length, 1, build.tokens), build.positions)
        return stored_index_keys(build, layer, graph.mul_mat(self._rotation, key), self._key_rows, cells)

    def _queries(self, layer: int, x: Node, ranks: Node) -> tuple[Node, Node]:
        """Queries of several heads for each token, and a weight for each head."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        length = build.hyper.index_length
        query = build.linear(ranks, f"{name}.indexer.attn_q_b")
        query = graph.rope(graph.reshape(query, length, query.shape[0] // length, build.tokens), build.positions)
        query = graph.mul_mat(self._rotation, query)
        query, weights = by_stream(build, query, build.linear(x, f"{name}.indexer.proj"), build.settings.streams)
        return query, graph.scale(weights)


def by_stream(build: Build, query: Node, weights: Node, streams: int) -> tuple[Node, Node]:
    """Queries (length, heads, tokens, streams) and weights (heads, tokens, 1, streams) of each slot's tokens."""
    graph, (length, heads), tokens = build.graph, query.shape[:2], build.tokens // streams
    query = graph.view(query, (length, heads, tokens, streams), (*query.strides[1:3], query.strides[2] * tokens))
    row = weights.strides[1]
    return query, graph.view(weights, (heads, tokens, 1, streams), (row, row * tokens, row * tokens))


def index_scores(build: Build, layer: int, query: Node, keys: Node, weights: Node, mask: Node) -> Node:
    """How much each query wants each key: (cells, tokens, 1, streams)."""
    graph = build.graph
    if build.kernels.indexer:
        shape = (keys.shape[2], query.shape[2], 1, query.shape[3])
        scores = graph.special("lightning_indexer", shape, query, keys, weights, mask)
        build.fused.append((layer, scores))
        return scores
    products = graph.mul_mat(graph.permute(keys, 0, 2, 1, 3), graph.permute(query, 0, 2, 1, 3))
    products = graph.unary(graph.cont(graph.permute(products, 2, 1, 0, 3)))
    total = graph.sum_rows(graph.mul(products, weights))
    return graph.add(graph.cont(graph.permute(total, 2, 1, 0, 3)), mask)


def best_places(build: Build, scores: Node) -> Node:
    """Those of the highest scores of each query."""
    count = min(scores.shape[0], build.hyper.blueprint.count("attention.indexer.top_k"))
    return build.graph.cont(build.graph.special("top_k", (count, *scores.shape[1:]), scores, kind="I32"))
