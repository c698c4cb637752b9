"""What some models add after a layer."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.embedding import Start, for_layer
from unslow.think.memory.llama_cpp.node import Node


def ended(build: Build, layer: int, x: Node, start: Start) -> Node:
    """The end of a layer, which most have none of."""
    graph, hyper, scale = build.graph, build.hyper, f"{build.block(layer)}.layer_output_scale.weight"
    if start.for_layers is not None:
        x = graph.add(x, for_layer(build, layer, x, start.for_layers))
    if build.has(scale) and hyper.habits.skips_embeddings:
        rows = graph.get_rows(start.x, build.wanted) if build.picks(layer) else start.x
        x = graph.add(x, graph.mul(rows, build.weight(scale)))
    elif build.has(scale):
        x = graph.mul(x, build.weight(scale))
    if layer < hyper.blueprint.count("n_deepstack_layers"):
        x = graph.add(x, graph.view(start.rows, start.rows.shape[:2], (start.rows.strides[1],)))
    if hyper.ends_loop(layer):
        x = build.norm(x, "output_norm")
    return x
