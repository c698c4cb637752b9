"""Who made a GPU: as told, else by its name."""

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu

_BY_WORD = (
    ("rtx", "NVIDIA"), ("gtx", "NVIDIA"), ("nvidia", "NVIDIA"), ("tesla", "NVIDIA"), ("quadro", "NVIDIA"),
    ("radeon", "AMD"), ("amd", "AMD"), ("apple", "Apple"), ("arc", "Intel"), ("intel", "Intel"),
)  # fmt: skip


def maker_of(gpu: Gpu) -> str:
    """The maker by the name that the catalogue uses; empty where nothing tells."""
    name = gpu.name.value_or("")
    known = find_device(name)
    words = name.lower().split()
    named = known.vendor if known else next((maker for word, maker in _BY_WORD if word in words), "")
    return str(gpu.vendor.value_or(named) or named)
