"""Hyper-connections (DeepSeek 4): several residual streams, which each half of a layer reads and writes as mixtures."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.feed_forward import feed_forward
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.transformer import Mixer


class _Mixture(NamedTuple):
    """What a half reads, and by which weights its answer and the streams are mixed into the new ones."""

    read: Node
    answer_weights: Node
    stream_weights: Node


class HyperConnections:
    """The layers of a model with several streams: (width, streams, tokens)."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._count = build.hyper.blueprint.count("hyper_connection.count")
        self._rounds = build.hyper.blueprint.count("hyper_connection.sinkhorn_iterations")

    def begun(self, x: Node) -> Node:
        """All streams begin with the embeddings."""
        graph, (width, tokens) = self._build.graph, x.shape[:2]
        return graph.repeat(graph.reshape(x, width, 1, tokens), width, self._count, tokens)

    def layer(self, layer: int, x: Node, mix: Mixer) -> Node:
        """One layer."""
        build, name = self._build, self._build.block(layer)
        mixture = self._mixture(layer, "attn", x)
        x = self._written(layer, mix(build.norm(mixture.read, f"{name}.attn_norm")), x, mixture)
        mixture = self._mixture(layer, "ffn", x)
        for node in (x, mixture.answer_weights, mixture.stream_weights):
            build.graph.expand(node)
        fed = feed_forward(build, layer, build.norm(mixture.read, f"{name}.ffn_norm"))
        result = self._written(layer, fed, x, mixture)
        if build.is_trial:  # llama.cpp keeps the last node of a layer on the layer's device in small batches
            result.backend = build.places.layer(layer)
        return result

    def ended(self, x: Node) -> Node:
        """One mixture of all streams, for the wanted tokens."""
        build, graph, width = self._build, self._build.graph, x.shape[0]
        flat = graph.get_rows(graph.reshape(x, width * self._count, x.shape[2]), build.wanted)
        x = graph.reshape(flat, width, self._count, flat.shape[1])
        scale, base = build.weight("output_hc_scale.weight"), build.weight("output_hc_base.weight")
        weights = graph.add(graph.mul(self._scores("output_hc_fn.weight", x), scale), base)
        return self._summed_by_hand(x, graph.scale(graph.unary(weights)))

    def _scores(self, name: str, x: Node) -> Node:
        graph = self._build.graph
        flat = graph.norm(graph.reshape(x, x.shape[0] * x.shape[1], x.shape[2]))
        return graph.mul_mat(self._build.weight(name), flat)

    def _mixture(self, layer: int, half: str, x: Node) -> _Mixture:
        build, graph, count = self._build, self._build.graph, self._count
        name = f"{build.block(layer)}.hc_{half}"
        scores = self._scores(f"{name}_fn.weight", x)
        reading = graph.scale(graph.unary(self._part(scores, name, count)))
        answers = graph.scale(graph.unary(self._part(scores, name, count)))
        streams = self._stream_weights(layer, name, scores)
        return _Mixture(self._summed(layer, x, reading), answers, streams)

    def _part(self, scores: Node, name: str, length: int) -> Node:
        """Some of the scores, with a scale and a base of their own."""
        build, graph = self._build, self._build.graph
        part = graph.view(scores, (length, scores.shape[1]), (scores.strides[1],))
        part = graph.mul(part, graph.view(build.weight(f"{name}_scale.weight"), (1,)))
        return graph.add(part, graph.view(build.weight(f"{name}_base.weight"), (length,)))

    def _stream_weights(self, layer: int, name: str, scores: Node) -> Node:
        """How much of each stream goes into each: rows and columns that add up to one."""
        build, graph, count, tokens = self._build, self._build.graph, self._count, scores.shape[1]
        if build.kernels.stream_weights:
            scale, base = build.weight(f"{name}_scale.weight"), build.weight(f"{name}_base.weight")
            return self._fused(layer, graph.special("hc_comb", (count, count, tokens, 1), scores, scale, base))
        weights = graph.reshape(self._part(scores, name, count * count), count, count, tokens)
        epsilon = graph.unary(graph.empty("F32", 1), "fill")
        weights = self._by_columns(graph.add(graph.soft_max(weights), epsilon), epsilon)
        for _ in range(1, self._rounds):
            totals = graph.add(graph.sum_rows(weights), epsilon)
            weights = self._by_columns(graph.binary("div", weights, totals), epsilon)
        return weights

    def _by_columns(self, weights: Node, epsilon: Node) -> Node:
        graph = self._build.graph
        totals = graph.add(graph.sum_rows(graph.cont(graph.permute(weights, 1, 0, 2, 3))), epsilon)
        return graph.binary("div", weights, graph.permute(totals, 1, 0, 2, 3))

    def _summed(self, layer: int, x: Node, weights: Node) -> Node:
        """The weighted sum of all streams."""
        if not self._build.kernels.stream_sums:
            return self._summed_by_hand(x, weights)
        return self._fused(layer, self._build.graph.special("hc_pre", (x.shape[0], x.shape[2], 1, 1), x, weights))

    def _summed_by_hand(self, x: Node, weights: Node) -> Node:
        graph = self._build.graph
        total: Node | None = None
        for _ in range(self._count):
            weight = graph.view(weights, (1, x.shape[2]), (weights.strides[1],))
            part = graph.mul(self._stream(x), weight)
            total = part if total is None else graph.add(total, part)
        return total or x

    def _stream(self, x: Node) -> Node:
        return self._build.graph.view(x, (x.shape[0], x.shape[2]), (x.strides[2],))

    def _written(self, layer: int, answer: Node, streams: Node, mixture: _Mixture) -> Node:
        """The new streams: a share of the answer, and of each stream."""
        graph, weights = self._build.graph, mixture.stream_weights
        if self._build.kernels.stream_writes:
            sources = (answer, streams, mixture.answer_weights, weights)
            return self._fused(layer, graph.special("hc_post", streams.shape, *sources))
        width, tokens = answer.shape[:2]
        result: Node | None = None
        for _ in range(self._count):
            share = graph.view(mixture.answer_weights, (1, tokens), (mixture.answer_weights.strides[1],))
            new = graph.mul(answer, share)
            for _ in range(self._count):
                share = graph.view(weights, (1, tokens), (weights.strides[2],))
                new = graph.add(new, graph.mul(self._stream(streams), share))
            new = graph.reshape(new, width, 1, tokens)
            result = new if result is None else graph.concat(result, new, 1)
        return result or streams

    def _fused(self, layer: int, node: Node) -> Node:
        self._build.fused.append((layer, node))
        return node
