"""What was learned of a backend against the bandwidth measured beside it: one TOML for each, found by presence."""

from functools import cache

import msgspec

from unslow.catalog import entries


class Learned(msgspec.Struct, frozen=True):
    """How far off a prediction from a measured bandwidth may be, as a factor either way."""

    spread: float
    source: str


@cache
def backends() -> dict[str, Learned]:
    """Every backend by name; GPUs are predicted from `learned_speed`."""
    return dict(entries("backends", Learned))
