"""What holds for GPUs of one family, whether or not the catalogue has their datasheets: one TOML for each."""

from functools import cache, lru_cache

import msgspec

from unslow.catalog import entries
from unslow.catalog.devices import find_device
from unslow.catalog.name_patterns import best_fit


class GpuFamily(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A family, by the file's name as devices call it; `names` are those of cards without a datasheet of their own."""

    vendor: str
    source: str
    names: tuple[str, ...] = ()
    compute_capability: str = ""
    """The highest of NVIDIA's that a chip of it has."""
    rocm: bool | None = None
    """Whether the ROCm libraries that Ollama shipped before it knew Vulkan have code for it; None where that varies."""
    unified: bool = False
    """Whether it uses the host's memory."""


@cache
def gpu_families() -> dict[str, GpuFamily]:
    """Every family by its name."""
    return dict(entries("gpu_families", GpuFamily))


@lru_cache(maxsize=4096)
def find_gpu_family(name: str) -> GpuFamily | None:
    """The family that a driver's name tells, by its patterns, else by the datasheet; None where neither does."""
    by_name = best_fit(name, ((pattern, family) for family in gpu_families().values() for pattern in family.names))
    device = find_device(name)
    return by_name or (gpu_families().get(device.family) if device else None)
