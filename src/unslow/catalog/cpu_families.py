"""What every CPU of a family can do, where nobody listed it: one TOML for each."""

from functools import cache, lru_cache

import msgspec

from unslow.catalog import entries
from unslow.catalog.name_patterns import best_fit


class CpuFamily(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """CPUs by their names, and the instruction sets that all of them have, as llama.cpp calls them."""

    names: tuple[str, ...]
    instruction_sets: tuple[str, ...]
    source: str


@cache
def cpu_families() -> tuple[CpuFamily, ...]:
    """Every family."""
    return tuple(family for _, family in entries("cpu_families", CpuFamily))


@lru_cache(maxsize=1024)
def find_cpu_family(name: str) -> CpuFamily | None:
    """The family that a name tells; None where none is sure."""
    return best_fit(name, ((pattern, family) for family in cpu_families() for pattern in family.names))
