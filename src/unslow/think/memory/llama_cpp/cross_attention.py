"""Attention of a decoder to what an encoder said (T5)."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.product import Operands, product


class CrossAttention:
    """The second attention of each layer; llama.cpp reserves as much as the longest input of the model takes."""

    def __init__(self, build: Build) -> None:
        length = build.hyper.blueprint.count("context_length")
        kind = "F16" if build.kernels.flash_attention else "F32"
        self._encoded = build.graph.input("F32", build.hyper.width, length, name="encoded")
        self._mask = build.graph.input(kind, length, build.tokens, name="mask of the encoded")
        self._build = build

    def attended(self, layer: int, x: Node) -> Node:
        """What a layer takes from the encoder's words."""
        build, graph, name = self._build, self._build.graph, self._build.block(layer)
        hyper, length = build.hyper, self._encoded.shape[1]
        query, key, value = (
            graph.expand(graph.reshape(build.linear(read, f"{name}.cross_attn_{part}"), *shape))
            for part, read, shape in (
                ("q", x, (hyper.key_length(layer), hyper.heads[layer], build.tokens)),
                ("k", self._encoded, (hyper.key_length(layer), hyper.kv_heads[layer], length)),
                ("v", self._encoded, (hyper.value_length(layer), hyper.kv_heads[layer], length)),
            )
        )
        result = product(build, layer, Operands(query, key, value, self._mask))
        return build.linear(result, f"{name}.cross_attn_o")
