"""What llama.cpp keeps of the tokens it has seen: keys and values, or a state, for each layer."""

from collections.abc import Iterator
from typing import NamedTuple

from unslow.facts.units import padded
from unslow.think.memory.llama_cpp.hyper import LOW_RATIO, Hyper
from unslow.think.memory.llama_cpp.node import Node
from unslow.think.memory.llama_cpp.settings import CELLS_PADDING, Settings


class LayerCache(NamedTuple):
    """One layer's part of the cache, of all slots."""

    layer: int
    cells: int
    """The tokens that each slot has room for; 0 for a layer that only keeps a state."""
    tables: tuple[Node, ...]

    @property
    def bytes(self) -> int:
        """All of it, without what a device adds."""
        return sum(table.bytes for table in self.tables)


def cells_of(hyper: Hyper, settings: Settings, layer: int) -> int:
    """The tokens that a slot's cache of this layer holds."""
    whole = settings.slot_context
    if not hyper.windowed[layer] or settings.full_windows:
        return whole
    sharing = settings.slots if settings.unified else 1
    return padded(min(whole, hyper.window * sharing + settings.used_micro_batch), CELLS_PADDING)


def layer_caches(hyper: Hyper, settings: Settings) -> list[LayerCache]:
    """The cache, layer by layer; layers that have none of their own are left out."""
    return [_layer_cache(hyper, settings, il) for il in range(hyper.all_layers) if hyper.has_own_cache(il)]


def _layer_cache(hyper: Hyper, settings: Settings, layer: int) -> LayerCache:
    tables = _state_tables(hyper, settings, layer)
    if hyper.recurrent[layer] and not hyper.attends(layer):
        return LayerCache(layer, 0, tables)
    cells = cells_of(hyper, settings, layer)
    if hyper.is_compressed:
        return LayerCache(layer, cells, tuple(_compressed_tables(hyper, settings, layer, cells)))
    widths = [(settings.key_type, hyper.key_length(layer) * hyper.kv_heads[layer])]
    if not hyper.is_latent:
        widths.append((settings.value_type, value_width(hyper, settings, layer)))
    if hyper.has_indexer(layer):
        widths.append((settings.key_type, hyper.index_length))
        if not hyper.is_latent:  # nobody reads these values
            widths.append((settings.value_type, hyper.value_length(layer)))
    more = (Node("none", kind, (width, cells, settings.streams, 1)) for kind, width in widths)
    return LayerCache(layer, cells, (*tables, *more))


def _compressed_tables(hyper: Hyper, settings: Settings, layer: int, cells: int) -> Iterator[Node]:
    """The last tokens; rows of many tokens, and the tokens that do not fill one yet; those of an indexer."""
    kind, slots, length = settings.key_type, settings.slots, hyper.key_length(layer)
    yield Node("none", kind, (length, cells, slots, 1))
    ratio = hyper.compression(layer)
    if not ratio or layer >= hyper.layers:
        return
    parts = 2 if ratio == LOW_RATIO else 1
    for width in (length, hyper.index_length) if ratio == LOW_RATIO else (length,):
        yield Node("none", kind, (width, compressed_cells(settings, ratio), slots, 1))
        yield from (Node("none", "F32", (parts * width, parts * ratio, slots, 1)) for _ in range(2))


def compressed_cells(settings: Settings, ratio: int) -> int:
    """The compressed rows that a slot has room for."""
    return padded(max(1, -(-settings.slot_context // ratio)), CELLS_PADDING)


def value_width(hyper: Hyper, settings: Settings, layer: int) -> int:
    """The elements of a token's values; where they lie transposed, all layers take as many as the widest."""
    return hyper.widest_values if settings.transposes_values else hyper.value_length(layer) * hyper.kv_heads[layer]


def _state_tables(hyper: Hyper, settings: Settings, layer: int) -> tuple[Node, ...]:
    """The last inputs of a convolution, and what a layer remembers of all before."""
    if not hyper.recurrent[layer]:
        return ()
    elements = (hyper.convolution_elements, hyper.memory_elements)
    return tuple(Node("none", "F32", (n, max(1, settings.slots), 1, 1)) for n in elements)
