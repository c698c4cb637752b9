"""What llama.cpp keeps of the tokens it has seen: keys and values, or a state, for each layer."""

from typing import NamedTuple

from unslow.facts.units import padded
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.node import block_of, row_bytes
from unslow.think.memory.llama_cpp.settings import CELLS_PADDING, Settings

_STATE_BYTES = 4
"""States are kept as 32-bit numbers."""


class LayerCache(NamedTuple):
    """One layer's part of the cache; the bytes are of all slots."""

    layer: int
    cells: int
    key_width: int
    value_width: int
    key_bytes: int
    value_bytes: int
    state_bytes: int

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.key_bytes + self.value_bytes + self.state_bytes


def cells_of(hyper: Hyper, settings: Settings, layer: int) -> int:
    """The tokens that a slot's cache of this layer holds."""
    whole = settings.slot_context
    if not hyper.windowed[layer] or settings.full_windows:
        return whole
    sharing = settings.slots if settings.unified else 1
    return padded(min(whole, hyper.window * sharing + settings.used_micro_batch), CELLS_PADDING)


def layer_caches(hyper: Hyper, settings: Settings, *, flash: bool = True) -> list[LayerCache]:
    """The cache, layer by layer, with or without flash attention; layers that have none of their own are left out."""
    own = [il for il in range(hyper.all_layers) if hyper.has_own_cache(il)]
    return [_layer_cache(hyper, settings, il, flash=flash) for il in own]


def _layer_cache(hyper: Hyper, settings: Settings, layer: int, *, flash: bool) -> LayerCache:
    state = hyper.state_elements(layer) * _STATE_BYTES * max(1, settings.slots)
    if not hyper.attends(layer):
        return LayerCache(layer, 0, 0, 0, 0, 0, state)
    cells = cells_of(hyper, settings, layer)
    key_width = hyper.key_length(layer) * hyper.kv_heads[layer]
    value_width = 0 if hyper.is_latent else hyper.value_length(layer) * hyper.kv_heads[layer]
    if value_width and not flash:  # values lie transposed, at the width of the widest layer
        value_width = hyper.widest_values
    rows = cells * settings.streams
    keys = _table_bytes(settings.key_type, key_width, rows)
    values = _table_bytes(settings.value_type, value_width, rows)
    return LayerCache(layer, cells, key_width, value_width, keys, values, state)


def _table_bytes(kind: str, width: int, rows: int) -> int:
    return row_bytes(kind, padded(width, block_of(kind)[0])) * rows
