"""Residual attention (Kimi K3): each half of a layer reads a mix of the sums that earlier layers left behind."""

from collections.abc import Callable

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.feed_forward import feed_forward
from unslow.think.memory.llama_cpp.node import Node


class ResidualAttention:
    """The layers of a model, in their order; every few of them the sum is put aside and begins anew."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._period = build.size("attn_res.block_size")
        self._kept: Node | None = None
        """The sums put aside so far: (width, sums, tokens)."""

    def layer(self, layer: int, x: Node, mix: Callable[[Node], Node]) -> Node:
        """A whole layer; `x` is the sum so far."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        read = self._mixed(x, f"{name}.attn_res_score")
        anew = layer % self._period == 0
        if anew:
            self._keep(x)
        mixed = mix(build.norm(read, f"{name}.attn_norm"))
        x = mixed if anew else graph.add(x, mixed)
        read = self._mixed(x, f"{name}.ffn_res_score")
        return graph.add(x, feed_forward(build, layer, build.norm(read, f"{name}.ffn_norm")))

    def ended(self, x: Node) -> Node:
        """What the last norm reads: the last mix, of the wanted tokens."""
        return self._build.graph.get_rows(self._mixed(x, "output_res_score"), self._build.wanted)

    def _keep(self, x: Node) -> None:
        graph = self._build.graph
        sums = graph.reshape(x, x.shape[0], 1, x.shape[1])
        self._kept = sums if self._kept is None else graph.concat(self._kept, sums, 1)

    def _mixed(self, x: Node, name: str) -> Node:
        """The sum so far and all kept ones, weighed by their scores."""
        graph, kept = self._build.graph, self._kept
        if kept is None:
            return x
        width, count, tokens = kept.shape[:3]
        scores = graph.concat(graph.reshape(self._scores(kept, name), count, tokens), self._scores(x, name), 0)
        shares = graph.soft_max(scores)
        of_kept, of_x = (graph.cont(graph.view(shares, (n, tokens), (shares.strides[1],))) for n in (count, 1))
        mixed = graph.special("dsv4_hc_pre", (width, tokens, 1, 1), kept, of_kept)
        return graph.add(mixed, graph.mul(x, of_x))

    def _scores(self, x: Node, name: str) -> Node:
        graph = self._build.graph
        return graph.sum_rows(graph.mul(graph.norm(x), self._build.weight(f"{name}.weight")))
