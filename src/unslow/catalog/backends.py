"""What was learned of each backend on each family of devices: one TOML for each, found by presence."""

from functools import cache

import msgspec

from unslow.catalog import entries


class Learned(msgspec.Struct, frozen=True):
    """Share of the bandwidth that is reached, overhead of a 4096-wide layer, and how far off a prediction may be."""

    efficiency: float
    layer_overhead_s: float
    spread: float
    source: str


class BackendData(msgspec.Struct, frozen=True):
    """A backend: the figures for any device, and for the families that were measured."""

    default: Learned
    families: dict[str, Learned] = {}


@cache
def backends() -> dict[str, BackendData]:
    """Every backend by name."""
    return dict(entries("backends", BackendData))


def learned(name: str, family: str = "") -> Learned:
    """The figures for a family of devices, else those for any."""
    data = backends()[name]
    return data.families.get(family, data.default)
