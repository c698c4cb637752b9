"""The compute graph of a whole model, layer by layer."""

from unslow.think.memory.llama_cpp.attention import CacheInputs, attended, cache_inputs, plain_heads, rotated
from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.delta_net import delta_net
from unslow.think.memory.llama_cpp.feed_forward import feed_forward
from unslow.think.memory.llama_cpp.latent import latent_attention
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.recurrent import StateRows, state_rows


class _Inputs:
    """What the host tells before each computation, made when a layer first needs it."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._caches: dict[bool, CacheInputs] = {}
        self._rows: StateRows | None = None

    def cache(self, layer: int) -> CacheInputs:
        """Those of the layer's kind of cache."""
        windowed = self._build.hyper.windowed[layer]
        if windowed not in self._caches:
            self._caches[windowed] = cache_inputs(self._build, layer)
        return self._caches[windowed]

    @property
    def state_rows(self) -> StateRows:
        """That of recurrent layers."""
        if self._rows is None:
            self._rows = state_rows(self._build)
        return self._rows


def build_graph(build: Build) -> None:
    """Add the nodes that read a prompt."""
    x = _embedded(build)
    inputs = _Inputs(build)
    for layer in range(build.hyper.layers):
        x = _layer(build, layer, x, inputs)
    _output(build, x)


def _embedded(build: Build) -> Node:
    graph = build.graph
    tokens = graph.input("I32", build.tokens, name="tokens")
    rows = graph.expand(graph.get_rows(build.weight("token_embd.weight"), tokens))
    graph.expand(graph.input("F32", build.hyper.width, build.tokens, name="embeddings"))
    if build.hyper.habits.scales_embeddings:
        rows = graph.scale(rows)
    return rows


def _layer(build: Build, layer: int, x: Node, inputs: _Inputs) -> Node:
    graph, name, habits = build.graph, f"blk.{layer}", build.hyper.habits
    before, first, second, after_first = x, f"{name}.attn_norm", f"{name}.ffn_norm", f"{name}.post_attention_norm"
    normed = build.norm(x, first) if build.has(f"{first}.weight") else x
    mixed = _mixed(build, layer, normed, inputs)
    if layer == build.hyper.layers - 1 and not habits.picks_outputs_last:
        mixed, before = (graph.get_rows(n, build.wanted) for n in (mixed, before))
    if not build.has(f"{second}.weight") and build.has(f"{first}.weight"):
        second, after_first = after_first, second  # some files name the second norm after the first half
    if build.has(f"{after_first}.weight"):
        mixed = build.norm(mixed, after_first)
    middle = graph.add(mixed, before)
    normed = build.norm(middle, second) if build.has(f"{second}.weight") else middle
    result = feed_forward(build, layer, normed)
    if build.has(f"{name}.post_ffw_norm.weight"):
        result = build.norm(result, f"{name}.post_ffw_norm")
    return graph.add(result, middle)


def _mixed(build: Build, layer: int, x: Node, inputs: _Inputs) -> Node:
    """The first half of a layer, in which tokens see each other: attention, or a state."""
    if build.hyper.recurrent[layer]:
        build.graph.expand(x)
        return delta_net(build, layer, x, inputs.state_rows)
    if build.hyper.is_latent:
        result = latent_attention(build, layer, x, inputs.cache(layer))
    else:
        heads = rotated(build, layer, plain_heads(build, layer, x))
        if build.hyper.habits.scales_queries:
            heads = heads._replace(query=build.graph.scale(heads.query))
        result = attended(build, layer, heads, inputs.cache(layer))
    return build.linear(result, f"blk.{layer}.attn_output")


def _output(build: Build, x: Node) -> None:
    graph = build.graph
    x = build.norm(x, "output_norm")
    if build.hyper.habits.picks_outputs_last:
        x.is_output = True
        x = graph.get_rows(x, build.wanted)
    if build.has("output.weight"):
        logits = build.linear(x, "output")
    else:
        logits = graph.mul_mat(build.weight("token_embd.weight", build.places.layers[-1]), x)
    if build.hyper.blueprint.number("final_logit_softcapping"):
        logits = graph.scale(graph.unary(graph.scale(logits)))
    x.is_output = logits.is_output = True
    graph.expand(logits)
