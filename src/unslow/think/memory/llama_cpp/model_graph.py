"""The compute graph of a whole model, layer by layer."""

from functools import partial

from unslow.think.memory.llama_cpp.altup import AltUp
from unslow.think.memory.llama_cpp.attention import attended, attention_output
from unslow.think.memory.llama_cpp.block_sparse import is_block_sparse
from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.compression import CompressedAttention
from unslow.think.memory.llama_cpp.embedding import Start, embedded
from unslow.think.memory.llama_cpp.feed_forward import feed_forward
from unslow.think.memory.llama_cpp.folding import laid_out_layers
from unslow.think.memory.llama_cpp.graph import UnknownLayoutError
from unslow.think.memory.llama_cpp.heads import heads_of
from unslow.think.memory.llama_cpp.hyper_connections import HyperConnections
from unslow.think.memory.llama_cpp.inputs import Inputs
from unslow.think.memory.llama_cpp.latent import expanded_heads, latent_attention
from unslow.think.memory.llama_cpp.layer_ends import ended
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.output import add_output
from unslow.think.memory.llama_cpp.product import Extras
from unslow.think.memory.llama_cpp.recurrent_mixers import recurrent_mixer
from unslow.think.memory.llama_cpp.residual_attention import ResidualAttention
from unslow.think.memory.llama_cpp.rwkv import Rwkv
from unslow.think.memory.llama_cpp.transformer import transformer_layer


def build_graph(build: Build) -> None:
    """Add the nodes that read a prompt."""
    if not build.hyper.habits.is_known:
        raise UnknownLayoutError(f"layers of the architecture {build.hyper.blueprint.architecture!r} are not known")
    start, inputs = embedded(build), Inputs(build)
    if build.has("altup_proj.weight"):
        x = _through_versions(build, start, inputs)
    elif build.hyper.is_rwkv:
        x = _through_rwkv(build, start, inputs)
    elif build.has("output_res_score.weight"):
        x = _through_kept_sums(build, start, inputs)
    elif build.has("output_hc_fn.weight"):
        x = _through_streams(build, start)
    else:
        x = _through_layers(build, start, inputs)
    add_output(build, x)


def _through_layers(build: Build, start: Start, inputs: Inputs) -> Node:
    x = start.x
    for layer in build.layers or laid_out_layers(build.hyper, build.places):
        x = ended(build, layer, _layer(build, layer, x, inputs), start)
        build.ends.append(x)
    return x


def _through_versions(build: Build, start: Start, inputs: Inputs) -> Node:
    altup = AltUp(build, start)
    x = altup.begun(start.x)
    for layer in range(build.hyper.layers):
        x = altup.layer(layer, x, partial(_mixed, build, layer, inputs))
    return altup.ended(x)


def _through_streams(build: Build, start: Start) -> Node:
    streams = HyperConnections(build)
    attention = CompressedAttention(build)
    x = streams.begun(start.x)
    for layer in range(build.hyper.layers):
        x = streams.layer(layer, x, partial(attention.attended, layer))
    return streams.ended(x)


def _through_rwkv(build: Build, start: Start, inputs: Inputs) -> Node:
    rwkv, x = Rwkv(build, inputs.state_rows), start.x
    for layer in range(build.hyper.layers):
        x = rwkv.layer(layer, x)
    return x


def _through_kept_sums(build: Build, start: Start, inputs: Inputs) -> Node:
    kept, x = ResidualAttention(build), start.x
    for layer in range(build.hyper.layers):
        x = kept.layer(layer, x, partial(_mixed, build, layer, inputs))
    return kept.ended(x)


def _layer(build: Build, layer: int, x: Node, inputs: Inputs) -> Node:
    if build.has(f"{build.block(layer)}.cross_attn_q.weight"):
        return _decoder_layer(build, layer, x, inputs)

    def mix(normed: Node) -> Node:
        mixed = _mixed(build, layer, inputs, normed)
        if not build.hyper.habits.both_kinds:
            return mixed
        again = build.norm(x, f"{build.block(layer)}.attn_norm")
        return build.graph.add(mixed, recurrent_mixer(build, layer)(build, layer, again, inputs.state_rows))

    return transformer_layer(build, layer, x, mix)


def _decoder_layer(build: Build, layer: int, x: Node, inputs: Inputs) -> Node:
    """One that attends to its own tokens first, and then, as others do to their own, to those of an encoder."""
    mixed = _mixed(build, layer, inputs, build.norm(x, f"{build.block(layer)}.attn_norm"))
    return transformer_layer(build, layer, build.graph.add(mixed, x), partial(inputs.encoded.attended, layer))


def _mixed(build: Build, layer: int, inputs: Inputs, x: Node) -> Node:
    """The first half of a layer, in which tokens see each other: attention, or a state."""
    if build.hyper.recurrent[layer] and not build.hyper.attends(layer):
        return recurrent_mixer(build, layer)(build, layer, x, inputs.state_rows)
    if not build.hyper.attends(layer):
        return _without_mixing(build, layer, x)
    name = build.block(layer)
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


def _without_mixing(build: Build, layer: int, x: Node) -> Node:
    """A product in place of attention (some layers of Nemotron 51B), or nothing but a feed-forward network."""
    name = f"{build.block(layer)}.attn_output"
    return build.linear(x, name) if build.has(f"{name}.weight") else feed_forward(build, layer, x)
