"""What the host tells a cache before each computation: rows to write, what may be seen, rotations of quantised keys."""

from typing import NamedTuple

from unslow.think.memory.llama_cpp.build import Build
from unslow.think.memory.llama_cpp.cache import cells_of
from unslow.think.memory.llama_cpp.node import Node, block_of

_ROTATION = 64
"""The smallest matrix that quantised keys and values are rotated with."""


class CacheInputs(NamedTuple):
    """What the host tells a kind of cache before each computation."""

    mask: Node
    key_rows: Node | None = None
    value_rows: Node | None = None
    key_rotation: Node | None = None
    value_rotation: Node | None = None


def cache_inputs(build: Build, layer: int) -> CacheInputs:
    """The inputs of the cache that this layer and all of its kind use."""
    hyper, settings, graph = build.hyper, build.settings, build.graph
    kind, tokens = "F16" if build.kernels.flash_attention else "F32", build.tokens
    if not hyper.reads_cache:
        return CacheInputs(graph.input(kind, tokens, tokens, name="mask"))
    value_rows = None
    if not hyper.is_latent and not hyper.is_compressed:
        width = hyper.widest_values if settings.transposes_values else 1
        value_rows = graph.input("I64", tokens * width, name="value rows")
    return CacheInputs(
        mask=mask_input(build, layer, kind),
        key_rows=graph.input("I64", tokens, name="key rows"),
        value_rows=value_rows,
        key_rotation=_key_rotation(build, layer),
        value_rotation=_value_rotation(build, layer),
    )


def mask_input(build: Build, layer: int, kind: str) -> Node:
    """Which tokens of the cache each new one sees."""
    streams = build.settings.streams
    cells = cells_of(build.hyper, build.settings, layer)
    return build.graph.input(kind, cells, build.tokens // streams, 1, streams, name="mask")


def _key_rotation(build: Build, layer: int) -> Node | None:
    hyper = build.hyper
    if hyper.is_latent or not _can_rotate(build, layer, "key"):
        return None
    return rotation_input(build, hyper.key_length(layer))


def rotation_input(build: Build, length: int, *, always: bool = False) -> Node | None:
    """A matrix that keys of this length are rotated with, where they are quantised."""
    if not always and block_of(build.settings.key_type)[0] == 1:
        return None
    size = length & -length  # the largest power of two that divides it
    return build.graph.input("F32", size, size, name="key rotation")


def _value_rotation(build: Build, layer: int) -> Node | None:
    quantised = block_of(build.settings.value_type)[0] > 1
    if build.hyper.is_latent or not quantised or not _can_rotate(build, layer, "value"):
        return None
    return build.graph.input("F32", _ROTATION, _ROTATION, name="value rotation")


def _can_rotate(build: Build, layer: int, what: str) -> bool:
    """Whether all heads of this cache are equally long, and those of the first layer are of a fitting length."""
    hyper = build.hyper
    if hyper.window and any(hyper.recurrent):
        return False  # llama.cpp has no rotation for such a pair of caches beside states
    length_of = hyper.key_length if what == "key" else hyper.value_length
    kin = [il for il in range(hyper.all_layers) if hyper.has_own_cache(il) and hyper.attends(il)]
    lengths = {length_of(il) for il in kin if hyper.windowed[il] == hyper.windowed[layer]}
    return len(lengths) == 1 and length_of(0) % _ROTATION == 0
