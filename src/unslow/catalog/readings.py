"""Ways to read something of a machine or a runtime, and where each makes sense."""

from collections.abc import Mapping
from functools import cache

import msgspec

from unslow.catalog import entries

UNKNOWN = "unknown"
"""Among systems, vendors or runtimes: where nobody says which it is."""


class Way(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do, and where; no list means anywhere. Words in braces are other readings."""

    does: str
    systems: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()


@cache
def readings() -> Mapping[str, tuple[Way, ...]]:
    """The ways to each reading by its name, the first that fits to be taken."""
    return {name: ways for _, file in entries("readings", dict[str, tuple[Way, ...]]) for name, ways in file.items()}
