"""The start of a model: the embeddings of its tokens, and of their places."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node


class Start(NamedTuple):
    """What layers read: the first one `x`, and later ones what else an architecture keeps from the start."""

    x: Node
    rows: Node
    """The embeddings as they were looked up."""
    for_layers: Node | None
    """Embeddings of the tokens for each layer: (length, tokens, layers) (Gemma 3n and 4)."""


def embedded(build: Build) -> Start:
    """The embeddings of the tokens: (width, tokens)."""
    graph, hyper = build.graph, build.hyper
    rows = x = _looked_up(build)
    if hyper.scales_embeddings:
        x = graph.scale(x)
    if not hyper.habits.scales_embeddings:
        graph.expand(x)  # where the file asks for it, llama.cpp scales as a part of looking up
    if build.has("token_types.weight"):
        x = graph.add(x, graph.view(build.weight("token_types.weight"), (hyper.width,)))
    if build.has("position_embd.weight"):
        places = graph.get_rows(build.weight("position_embd.weight"), build.positions)
        x = graph.add(x, places) if hyper.reads_cache else graph.add(places, x)
    if build.has("token_embd_norm.weight") and hyper.last_norm != "token_embd_norm":
        x = build.norm(x, "token_embd_norm")
    if hyper.habits.norms_embeddings:
        x = graph.norm(x)
    return Start(x, rows, _for_layers(build, x) if build.has("per_layer_token_embd.weight") else None)


def _looked_up(build: Build) -> Node:
    """Rows of the token table; beside them lie embeddings that an image could give in their place."""
    graph, width = build.graph, build.hyper.width
    images = build.hyper.blueprint.count("n_deepstack_layers")  # whose embeddings are as many rows longer
    rows = graph.get_rows(build.weight("token_embd.weight"), build.token_numbers)
    if images:
        rows = graph.pad(rows, images * width)
    graph.expand(rows)
    graph.expand(graph.input("F32", (1 + images) * width, build.tokens, name="embeddings"))
    return graph.view(rows, (width, build.tokens), (rows.strides[1],)) if images else rows


def _for_layers(build: Build, x: Node) -> Node:
    """A second table, and a product with the embeddings, added up and divided among the layers."""
    graph, layers = build.graph, build.hyper.layers
    tokens = graph.input("I32", build.tokens, name="tokens")
    found = graph.get_rows(build.weight("per_layer_token_embd.weight"), tokens)
    length = found.shape[0] // layers
    found = graph.expand(graph.scale(graph.reshape(found, length, layers, build.tokens)))
    projected = graph.scale(graph.mul_mat(build.weight("per_layer_model_proj.weight"), x))
    projected = build.norm(graph.reshape(projected, length, layers, build.tokens), "per_layer_proj_norm")
    return graph.cont(graph.permute(graph.scale(graph.add(projected, found)), 0, 2, 1, 3))


def for_layer(build: Build, layer: int, x: Node, for_layers: Node) -> Node:
    """What a layer makes of the embeddings that are its own."""
    graph, name = build.graph, build.block(layer)
    own = graph.view(for_layers, for_layers.shape[:2])
    gate = graph.unary(build.linear(x, f"{name}.inp_gate"))
    return build.norm(build.linear(graph.mul(gate, own), f"{name}.proj"), f"{name}.post_norm")
