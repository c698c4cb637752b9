"""What was learned of each backend on each family of devices: one TOML for each, found by presence."""

import tomllib
from functools import cache
from importlib.resources import files

import msgspec


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
def backend_data(name: str) -> BackendData:
    """The backend of that name."""
    text = (files("unslow.catalog") / "backends" / f"{name}.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), BackendData)


def learned(name: str, family: str = "") -> Learned:
    """The figures for a family of devices, else those for any."""
    data = backend_data(name)
    return data.families.get(family, data.default)
