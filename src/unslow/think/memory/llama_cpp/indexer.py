"""Sparse attention (DeepSeek 3.2, GLM 5): a small attention of its own picks the tokens that the large one sees."""

from unslow.think.memory.llama_cpp.attention import mask_input
from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.cache import cells_of
from unslow.think.memory.llama_cpp.node import Node, row_bytes


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
        if self._build.hyper.has_indexer(layer):
            scores = self._scores(layer, x, ranks)
            count = min(scores.shape[0], self._build.hyper.blueprint.count("attention.indexer.top_k"))
            graph = self._build.graph
            self._picked = graph.cont(graph.special("top_k", (count, *scores.shape[1:]), scores, kind="I32"))
        return self._picked

    def _scores(self, layer: int, x: Node, ranks: Node) -> Node:
        """How much each query wants each token: (cells, tokens, 1, streams)."""
        build, graph = self._build, self._build.graph
        keys = self._stored(layer, x)
        query, weights = self._queries(layer, x, ranks, keys.shape[3])
        if build.kernels.indexer:
            shape = (keys.shape[2], query.shape[2], 1, query.shape[3])
            scores = graph.special("lightning_indexer", shape, query, keys, weights, self._mask)
            build.fused.append((layer, scores))
            return scores
        products = graph.mul_mat(graph.permute(keys, 0, 2, 1, 3), graph.permute(query, 0, 2, 1, 3))
        products = graph.unary(graph.cont(graph.permute(products, 2, 1, 0, 3)))
        total = graph.sum_rows(graph.mul(products, weights))
        return graph.add(graph.cont(graph.permute(total, 2, 1, 0, 3)), self._mask)

    def _stored(self, layer: int, x: Node) -> Node:
        """The indexer's own keys, one head for all, after the new ones were written to their cache."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        settings, length = build.settings, build.hyper.index_length
        cells, streams, kind = cells_of(build.hyper, settings, layer), settings.streams, settings.key_type
        key = build.norm(build.linear(x, f"{name}.indexer.attn_k"), f"{name}.indexer.k_norm", "norm")
        key = graph.rope(graph.reshape(key, length, 1, build.tokens), build.positions)
        key = graph.mul_mat(self._rotation, key)
        cache = build.cached(kind, layer, length, cells, streams)
        target = cache if streams == 1 else graph.reshape(cache, length, cells * streams)
        new = graph.view(key, (length, build.tokens), (key.strides[2],))
        graph.expand(graph.set_rows(target, new, self._key_rows))
        row = row_bytes(kind, length)
        return graph.view(cache, (length, 1, cells, streams), (row, row, row * cells))

    def _queries(self, layer: int, x: Node, ranks: Node, streams: int) -> tuple[Node, Node]:
        """Queries of several heads for each token, and a weight for each head."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        length, tokens = build.hyper.index_length, build.tokens // streams
        query = build.linear(ranks, f"{name}.indexer.attn_q_b")
        heads = query.shape[0] // length
        query = graph.rope(graph.reshape(query, length, heads, build.tokens), build.positions)
        query = graph.mul_mat(self._rotation, query)
        weights = build.linear(x, f"{name}.indexer.proj")
        strides = (query.strides[1], query.strides[2], query.strides[2] * tokens)
        query = graph.view(query, (length, heads, tokens, streams), strides)
        row = weights.strides[1]
        weights = graph.view(weights, (heads, tokens, 1, streams), (row, row * tokens, row * tokens))
        return query, graph.scale(weights)
