"""Gemma 3n: several versions of the hidden state, of which each layer computes one and predicts the others."""

from unslow.think.memory.llama_cpp.cache import Build
from unslow.think.memory.llama_cpp.graph import Node
from unslow.think.memory.llama_cpp.transformer import Mixer, Start, embedding_for_layer

_SPARSE_LAYERS = 10  # so many layers, from the first, keep only their strongest activations


class AltUp:
    """The layers of a model with several versions of its state: (width, tokens, versions)."""

    def __init__(self, build: Build, start: Start) -> None:
        self._build, self._for_layers = build, start.for_layers
        self._others = build.weight("altup_proj.weight").shape[2]  # Versions beside the one that is computed

    def begin(self, x: Node) -> Node:
        """The first state: the embeddings, and projections of them that are as long."""
        graph = self._build.graph
        repeated = graph.repeat(x, *x.shape[:2], self._others)
        return graph.concat(x, self._as_long_as(x, "altup_proj.weight", repeated), 2)

    def layer(self, layer: int, x: Node, mix: Mixer) -> Node:
        """One layer: predict all versions, compute the first, and correct the others by it."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        versions, tokens = self._others + 1, build.tokens
        factors = build.linear(self._route(layer, _first(build, x)), f"{name}.altup_predict_coef")
        turned = graph.cont(graph.permute(x, 1, 2, 0, 3))
        predicted = graph.mul_mat(turned, graph.reshape(factors, versions, versions, tokens))
        predictions = graph.add(graph.cont(graph.permute(predicted, 0, 2, 1, 3)), x)
        active = _first(build, predictions)
        normed = build.norm(active, f"{name}.attn_norm")
        aside = build.linear(build.linear(normed, f"{name}.laurel_l"), f"{name}.laurel_r")
        aside = graph.add(build.norm(aside, f"{name}.laurel_post_norm"), normed)
        mixed = graph.add(build.norm(mix(normed), f"{name}.post_attention_norm"), active)
        middle = graph.scale(graph.add(mixed, aside))
        normed = build.norm(middle, f"{name}.ffn_norm")
        up, gate = build.linear(normed, f"{name}.ffn_up"), build.linear(normed, f"{name}.ffn_gate")
        if layer < _SPARSE_LAYERS:
            gate = _strongest(build, gate)
        fed = build.linear(graph.mul(up, graph.unary(gate)), f"{name}.ffn_down")
        activated = graph.add(build.norm(fed, f"{name}.post_ffw_norm"), middle)
        factors = graph.scale(build.linear(self._route(layer, activated), f"{name}.altup_correct_coef"))
        news = graph.binary("sub", activated, _first(build, predictions))
        news = graph.repeat(news, *news.shape[:2], versions)
        factors = graph.cont(graph.transpose(factors), 1, tokens, versions)
        corrected = graph.add(graph.mul(news, factors), predictions)
        if self._for_layers is None:
            return corrected
        # With the layer's own embeddings added to all versions but the first
        scale = build.weight(f"{name}.altup_correct_scale.weight")
        own = embedding_for_layer(build, layer, graph.mul(_first(build, corrected), scale), self._for_layers)
        others = graph.view(corrected, (*corrected.shape[:2], self._others), corrected.strides[1:3])
        return graph.concat(_first(build, corrected), graph.add(others, own), 2)

    def end(self, x: Node) -> Node:
        """The mean of all versions, of the wanted tokens."""
        build, graph = self._build, self._build.graph
        others = graph.view(x, (*x.shape[:2], self._others), x.strides[1:3])
        others = self._as_long_as(_first(build, x), "altup_unembd_proj.weight", others)
        total = _first(build, x)
        for _ in range(self._others):
            total = graph.add(total, _first(build, others))
        return graph.get_rows(graph.scale(total), build.wanted)

    def _as_long_as(self, x: Node, name: str, others: Node) -> Node:
        graph = self._build.graph
        projected = graph.mul_mat(self._build.weight(name), others)
        wanted, length = (graph.unary(graph.sum_rows(graph.unary(n, "sqr")), "sqrt") for n in (x, projected))
        return graph.binary("div", graph.mul(projected, wanted), length)

    def _route(self, layer: int, x: Node) -> Node:
        build, name = self._build, self._build.block(layer)
        scores = build.graph.scale(build.norm(x, f"{name}.altup_router_norm"))
        return build.graph.unary(build.linear(scores, f"{name}.altup_router"))


def _first(build: Build, x: Node) -> Node:
    """One version, or one layer's: (width, tokens)."""
    return build.graph.view(x, x.shape[:2])


def _strongest(build: Build, x: Node) -> Node:
    """What lies above the mean by so many standard deviations; all else becomes zero."""
    graph = build.graph
    mean = graph.special("mean", (1, *x.shape[1:]), x)
    squares = graph.unary(graph.binary("sub", x, mean), "sqr")
    deviation = graph.unary(graph.scale(graph.sum_rows(squares)), "sqrt")
    cutoff = graph.add(mean, graph.scale(deviation))
    return graph.unary(graph.binary("sub", x, cutoff))
