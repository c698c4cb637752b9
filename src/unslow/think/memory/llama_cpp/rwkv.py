"""RWKV: layers that mix each token with the one before it, and keep what they heard in a matrix for each head."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.feed_forward import feed_forward
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.recurrent import StateRows, by_sequence, convolution_cache, loaded, stored
from unslow.think.memory.llama_cpp.rwkv6 import Neighbours, time_mixed_6
from unslow.think.memory.llama_cpp.rwkv7 import time_mixed_7


class Rwkv:
    """The layers of an RWKV model, in their order."""

    def __init__(self, build: Build, rows: StateRows) -> None:
        self._build, self._rows = build, rows
        self._first_value: Node | None = None
        """The values of the first layer, which later ones mix into theirs (RWKV 7)."""

    def layer(self, layer: int, x: Node) -> Node:
        """A whole layer: over time, then over channels."""
        build, name = self._build, self._build.block(layer)
        x = by_sequence(build, x)
        cache = convolution_cache(build, layer)
        before = loaded(build, cache, self._rows)
        before = build.graph.reshape(before, x.shape[0], build.hyper.token_shifts, x.shape[2])
        normed = build.norm(x, f"{name}.attn_norm")
        mixed = self._time_mixed(layer, Neighbours(normed, _shifted(build, before, normed)))
        if not build.has(f"{name}.channel_mix_key.weight"):
            stored(build, cache, _last(build, normed))
            return self._fed_forward(layer, build.graph.add(mixed, x))
        middle = build.graph.add(mixed, x)
        normed_2 = build.norm(middle, f"{name}.attn_norm_2")
        stored(build, cache, build.graph.concat(_last(build, normed), _last(build, normed_2), 1))
        return self._channel_mixed(layer, middle, Neighbours(normed_2, _shifted(build, before, normed_2)))

    def _time_mixed(self, layer: int, x: Neighbours) -> Node:
        if self._build.has(f"{self._build.block(layer)}.time_mix_decay.weight"):
            return time_mixed_6(self._build, layer, x, self._rows)
        mixed, self._first_value = time_mixed_7(self._build, layer, x, self._rows, self._first_value)
        return mixed

    def _fed_forward(self, layer: int, middle: Node) -> Node:
        """The second half as in a transformer (QRWKV)."""
        build = self._build
        middle = self._wanted(layer, middle)
        result = feed_forward(build, layer, build.norm(middle, f"{build.block(layer)}.ffn_norm"))
        return build.graph.add(result, middle)

    def _channel_mixed(self, layer: int, middle: Node, normed: Neighbours) -> Node:
        """The second half, in which a token is mixed with the one before it once more."""
        build, graph, name = self._build, self._build.graph, f"{self._build.block(layer)}.channel_mix"
        middle, token, before = (self._wanted(layer, n) for n in (middle, *normed))
        change = graph.binary("sub", before, token)

        def mixed(letter: str) -> Node:
            return graph.add(graph.mul(change, build.weight(f"{name}_lerp_{letter}.weight")), token)

        inner = graph.unary(graph.unary(build.linear(mixed("k"), f"{name}_key")), "sqr")
        result = build.linear(inner, f"{name}_value")
        if build.has(f"{name}_receptance.weight"):
            result = graph.mul(graph.unary(build.linear(mixed("r"), f"{name}_receptance")), result)
        result = graph.add(result, middle)
        period = build.hyper.blueprint.count("rescale_every_n_layers")
        return graph.scale(result) if period and (layer + 1) % period == 0 else result

    def _wanted(self, layer: int, x: Node) -> Node:
        """Without its sequences; in the last layer, only the tokens whose outputs are wanted."""
        build = self._build
        x = build.graph.reshape(x, x.shape[0], build.tokens)
        return build.graph.get_rows(x, build.wanted) if layer == build.hyper.layers - 1 else x


def _shifted(build: Build, before: Node, x: Node) -> Node:
    """Each token's predecessor: the last one of the batch before, then all but the last one of this batch."""
    graph = build.graph
    width, tokens, sequences = x.shape[:3]
    first = before if before.shape[1] == 1 else graph.view(before, (width, 1, sequences), before.strides[1:3])
    return graph.concat(first, graph.view(x, (width, tokens - 1, sequences), x.strides[1:3]), 1)


def _last(build: Build, x: Node) -> Node:
    """The last token of each sequence."""
    return build.graph.view(x, (x.shape[0], 1, x.shape[2]), x.strides[1:3])
