"""Rotary positions: which layers turn queries and keys by them, and what their frequencies are divided by."""

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.node import Node


def turned(build: Build, layer: int, x: Node) -> Node:
    """Turned by the positions of the tokens."""
    return build.graph.rope(x, build.positions, rope_factors(build, layer))


def turns(hyper: Hyper, layer: int) -> bool:
    """Whether a layer turns queries and keys; some know no places, or learn them otherwise."""
    habits, blueprint = hyper.habits, hyper.blueprint
    by_layer = hyper.rope_pattern[layer]
    skipped = habits.rope_skips > 0 and (layer + 1) % habits.rope_skips == 0
    other_model = habits.rope_model_layers not in (0, hyper.all_layers)
    if not by_layer or skipped or other_model:
        return False
    match habits.rope:
        case "windows":
            return not hyper.window or hyper.windowed[layer]
        case "windows_or_dense":
            return hyper.windowed[layer] or layer < hyper.leading_dense
        case "unless_untrained":
            return bool(blueprint.number("rope.scaling.finetuned", default=True))
        case kind:
            return kind == "all"


def rope_factors(build: Build, layer: int) -> Node | None:
    """What the frequencies are divided by, chosen by the context; each device has its own copy."""
    hyper = build.hyper
    users = hyper.habits.rope_factors
    if users == "none" or (users == "no_windows" and hyper.windowed[layer]):
        return None
    trained = hyper.blueprint.count("context_length")
    original = hyper.blueprint.count("rope.scaling.original_context_length", trained)
    length = "long" if build.settings.slot_context > original else "short"
    for name in ("rope_freqs.weight", f"rope_factors_{length}.weight"):
        if build.has(name):
            return build.weight(name, build.places.tensor(name, layer))
    return None


def tempered(build: Build, layer: int, query: Node) -> Node:
    """Queries times a factor that grows with the position: in layers that don't turn (Llama 4), or in all."""
    if build.hyper.tempers or (build.hyper.habits.tempers_unturned and not turns(build.hyper, layer)):
        return build.graph.mul(query, build.temperatures)
    return query
