"""Kinds of memory and of links, and the bandwidths that products with them have: one TOML each, found by presence."""

from functools import cache

import msgspec

from unslow.catalog import entries


class MemoryKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of memory or link."""

    words: tuple[str, ...]
    """As a text has it, in small letters."""
    name: str
    low_bytes_per_s: float
    high_bytes_per_s: float
    source: str


@cache
def memory_kinds() -> tuple[MemoryKind, ...]:
    """Every kind, those with the longest words first: HBM3e before HBM3."""
    found = [kind for _, kind in entries("memory_kinds", MemoryKind)]
    return tuple(sorted(found, key=lambda kind: -max(map(len, kind.words))))
