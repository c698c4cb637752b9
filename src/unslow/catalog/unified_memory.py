"""What a GPU gets of a memory that it shares with the host: one TOML for each vendor."""

from functools import cache

import msgspec

from unslow.catalog import entries
from unslow.facts.units import GIB


class Share(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part that is the GPU's, from a size of the whole on."""

    from_bytes: int
    share: float


class UnifiedMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a vendor's systems divide one memory; `note` says what changes it."""

    vendor: str
    shares: tuple[Share, ...]
    note: str
    source: str
    largest_gib: dict[str, int] = {}
    """The most memory that each chip was sold with."""

    def gpu_bytes(self, total_bytes: int) -> int:
        """The most that the GPU can have of so much memory."""
        share = max((s for s in self.shares if s.from_bytes <= total_bytes), key=lambda s: s.from_bytes)
        return int(total_bytes * share.share)

    def largest_bytes(self, name: str) -> int:
        """The most that a chip of this name can have; 0 where it is not known."""
        found = max((chip for chip in self.largest_gib if chip.lower() in name.lower()), key=len, default="")
        return self.largest_gib.get(found, 0) * GIB


@cache
def unified_memory(vendor: str) -> UnifiedMemory:
    """How the systems of a vendor divide their memory; a KeyError where none of them is unified."""
    return {kind.vendor: kind for _, kind in entries("unified_memory", UnifiedMemory)}[vendor]
