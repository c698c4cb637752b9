"""The compute graph of a whole model, layer by layer, with the inputs that the host gives it."""

from collections.abc import Callable
from functools import cached_property, partial

from unslow.think.memory.llama_cpp.attention import (
    CrossAttention,
    Extras,
    attended,
    attention_output,
    distance_bias,
    heads_of,
)
from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.cache import CacheInputs, cache_inputs
from unslow.think.memory.llama_cpp.deepseek import (
    CompressedAttention,
    HyperConnections,
    Indexer,
    expanded_heads,
    latent_attention,
)
from unslow.think.memory.llama_cpp.delta_net import delta_net
from unslow.think.memory.llama_cpp.feed_forward import feed_forward
from unslow.think.memory.llama_cpp.folding import laid_out_layers
from unslow.think.memory.llama_cpp.gemma3n import AltUp
from unslow.think.memory.llama_cpp.graph import Node, UnknownLayoutError
from unslow.think.memory.llama_cpp.kimi import ResidualAttention, kimi_delta
from unslow.think.memory.llama_cpp.minimax import BlockSparse, is_block_sparse, lightning_attention
from unslow.think.memory.llama_cpp.recurrent import StateRows, mamba, short_convolution, state_rows
from unslow.think.memory.llama_cpp.rwkv import Rwkv
from unslow.think.memory.llama_cpp.transformer import add_output, embedded_tokens, end_layer, transformer_layer

Mixer = Callable[[Build, int, Node, StateRows], Node]
_BY_TENSOR: tuple[tuple[str, Mixer], ...] = (
    ("ssm_conv1d_q.weight", kimi_delta),
    ("ssm_ba.weight", delta_net),
    ("ssm_beta.weight", delta_net),
    ("shortconv.conv.weight", short_convolution),
    ("attn_norm_2.weight", lightning_attention),
)
"""The first tensor that a layer has tells; one with none of them is a state-space layer."""


class Inputs:
    """All inputs but the tokens and their positions."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._caches: dict[bool, CacheInputs] = {}
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

    @cached_property
    def state_rows(self) -> StateRows:
        """That of recurrent layers."""
        return state_rows(self._build)


def build_graph(build: Build) -> None:
    """Add the nodes that read a prompt."""
    if not build.hyper.habits.is_known:
        raise UnknownLayoutError(f"layers of the architecture {build.hyper.blueprint.architecture!r} are not known")
    start, inputs, layers = embedded_tokens(build), Inputs(build), range(build.hyper.layers)
    x = start.x
    mix: Callable[[int, Node], Node] = partial(_mixed, build, inputs)
    own: AltUp | ResidualAttention | HyperConnections | None = None
    if build.has("altup_proj.weight"):
        own = AltUp(build, start)
    elif build.has("output_res_score.weight"):
        own = ResidualAttention(build)
    elif build.has("output_hc_fn.weight"):
        own, mix = HyperConnections(build), CompressedAttention(build).attended
    if own:  # layers that carry more than one sum
        x = own.begun(x)
        for layer in layers:
            x = own.layer(layer, x, partial(mix, layer))
        x = own.ended(x)
    elif build.hyper.is_rwkv:
        rwkv = Rwkv(build, inputs.state_rows)
        for layer in layers:
            x = rwkv.layer(layer, x)
    else:
        for layer in build.layers or laid_out_layers(build.hyper, build.places):
            x = end_layer(build, layer, _layer(build, layer, x, inputs), start)
            build.ends.append(x)
    add_output(build, x)


def _layer(build: Build, layer: int, x: Node, inputs: Inputs) -> Node:
    if build.has(f"{build.block(layer)}.cross_attn_q.weight"):
        # One that attends to its own tokens first, and then, as others do to their own, to those of an encoder
        mixed = _mixed(build, inputs, layer, build.norm(x, f"{build.block(layer)}.attn_norm"))
        return transformer_layer(build, layer, build.graph.add(mixed, x), partial(inputs.encoded.attended, layer))

    def mix(normed: Node) -> Node:
        mixed = _mixed(build, inputs, layer, normed)
        if not build.hyper.habits.both_kinds:
            return mixed
        again = build.norm(x, f"{build.block(layer)}.attn_norm")
        return build.graph.add(mixed, recurrent_mixer(build, layer)(build, layer, again, inputs.state_rows))

    return transformer_layer(build, layer, x, mix)


def _mixed(build: Build, inputs: Inputs, layer: int, x: Node) -> Node:
    """The first half of a layer, in which tokens see each other: attention, or a state."""
    name = build.block(layer)
    if not build.hyper.attends(layer):
        if build.hyper.recurrent[layer]:
            return recurrent_mixer(build, layer)(build, layer, x, inputs.state_rows)
        # A product in place of attention (some layers of Nemotron 51B), or nothing but a feed-forward network
        is_product = build.has(f"{name}.attn_output.weight")
        return build.linear(x, f"{name}.attn_output") if is_product else feed_forward(build, layer, x)
    if build.hyper.is_latent:
        result = latent_attention(build, layer, x, inputs.cache(layer), inputs.indexer)
    elif build.has(f"{name}.attn_kv_b.weight"):
        result = attended(build, layer, expanded_heads(build, layer, x), inputs.cache(layer))
    elif is_block_sparse(build, layer):
        result = inputs.blocks.attended(layer, x, heads_of(build, layer, x), inputs.cache(layer))
    else:
        bias = inputs.distance_bias(layer)
        result = attended(build, layer, heads_of(build, layer, x), inputs.cache(layer), Extras(score_bias=bias))
    return attention_output(build, layer, x, result)


def recurrent_mixer(build: Build, layer: int) -> Mixer:
    """What a layer that keeps a state computes."""
    return next((mixer for tensor, mixer in _BY_TENSOR if build.has(f"{build.block(layer)}.{tensor}")), mamba)
