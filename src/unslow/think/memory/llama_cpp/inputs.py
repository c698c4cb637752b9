"""What the host tells before each computation, made when a layer first needs it."""

from functools import cached_property

from unslow.think.memory.llama_cpp.attention import distance_bias
from unslow.think.memory.llama_cpp.block_sparse import BlockSparse
from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.cache_inputs import CacheInputs, cache_inputs
from unslow.think.memory.llama_cpp.cross_attention import CrossAttention
from unslow.think.memory.llama_cpp.indexer import Indexer
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.recurrent import StateRows, state_rows


class Inputs:
    """All inputs but the tokens and their positions."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._caches: dict[bool, CacheInputs] = {}
        self._rows: StateRows | None = None
        self._distances: Node | None = None

    def cache(self, layer: int) -> CacheInputs:
        """Those of the layer's kind of cache."""
        windowed = self._build.hyper.windowed[layer]
        if windowed not in self._caches:
            self._caches[windowed] = cache_inputs(self._build, layer)
        return self._caches[windowed]

    def distance_bias(self, layer: int) -> Node | None:
        """A bias of the scores for each distance, in models that know places by it alone (T5)."""
        build, name = self._build, "attn_rel_b.weight"
        owner = layer if build.has(f"{build.block(layer)}.{name}") else 0
        if not build.has(f"{build.block(owner)}.{name}"):
            return None
        if self._distances is None:
            self._distances = build.graph.input("I32", self.cache(layer).mask.shape[0], build.tokens, name="distances")
        return distance_bias(build, build.weight(f"{build.block(owner)}.{name}"), self._distances)

    @cached_property
    def blocks(self) -> BlockSparse:
        """What picks blocks of tokens, in models that attend to these."""
        return BlockSparse(self._build, self.cache(0).mask)

    @cached_property
    def indexer(self) -> Indexer | None:
        """What picks the tokens that attention sees, in models that have it."""
        return Indexer(self._build) if self._build.hyper.index_length else None

    @cached_property
    def encoded(self) -> CrossAttention:
        """What an encoder said."""
        return CrossAttention(self._build)

    @property
    def state_rows(self) -> StateRows:
        """That of recurrent layers."""
        if self._rows is None:
            self._rows = state_rows(self._build)
        return self._rows
