"""Who made a GPU: as told, else by its name."""

from unslow.catalog.device_words import vendor_of
from unslow.catalog.devices import find_device
from unslow.catalog.gpu_families import find_gpu_family
from unslow.facts.machine import Gpu


def maker_of(gpu: Gpu) -> str:
    """The maker by the name that the catalogue uses; empty where nothing tells."""
    name = gpu.name.value_or("")
    known = find_device(name) or find_gpu_family(name)
    named = known.vendor if known else vendor_of(name)
    return str(gpu.vendor.value_or(named) or named)
