"""The end of a model: the last norm, and the logits of the wanted tokens."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.places import OUTPUT


def add_output(build: Build, x: Node) -> None:
    """Add the last nodes; what they give to the host is kept to the end."""
    graph, habits = build.graph, build.hyper.habits
    if habits.picks_outputs == "layers":
        x = _picked(build, x)
    if build.hyper.last_norm:
        x = build.norm(x, build.hyper.last_norm)
    if habits.picks_outputs == "norm":
        x = _picked(build, x)
    x.is_output = True
    graph.expand(_logits(build, x) if habits.has_output else x)


def _picked(build: Build, x: Node) -> Node:
    """The wanted tokens; all of them are kept for drafts."""
    x.is_output = True
    return build.graph.get_rows(x, build.wanted)


def _logits(build: Build, x: Node) -> Node:
    graph, hyper = build.graph, build.hyper
    if hyper.habits.scales_last:
        x = graph.scale(x)
    if build.has("output.weight"):
        logits = build.linear(x, "output")
    else:
        place = build.places.tensor("token_embd.weight", OUTPUT) if hyper.habits.copies_table else None
        logits = graph.mul_mat(build.weight("token_embd.weight", place), x)
    if hyper.scales_logits:
        logits = graph.scale(logits)
    if hyper.caps_logits:
        logits = graph.scale(graph.unary(graph.scale(logits)))
    missing = build.weight("token_embd.weight").shape[1] - logits.shape[0]
    if hyper.habits.pads_logits and missing > 0:
        nothing = graph.scale(graph.view(build.weight("output_norm.weight"), (1,)))
        logits = graph.concat(graph.repeat(nothing, missing, logits.shape[1]), logits, 0)
    if hyper.habits.hidden_tokens:
        nothing = graph.clamp(graph.empty("F32", hyper.habits.hidden_tokens))
        logits = graph.special("set", logits.shape, logits, nothing)
    logits.is_output = True
    return logits
