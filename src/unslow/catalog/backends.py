"""What was learned of a backend against the bandwidth measured beside it: one TOML for each, found by presence."""

from functools import cache

import msgspec

from unslow.catalog import entries


class Learned(msgspec.Struct, frozen=True):
    """Share of the bandwidth that is reached, overhead of a 4096-wide layer, and how far off a prediction may be."""

    efficiency: float
    layer_overhead_s: float
    spread: float
    source: str


@cache
def backends() -> dict[str, Learned]:
    """Every backend by name; GPUs are predicted from `learned_speed`."""
    return dict(entries("backends", Learned))
