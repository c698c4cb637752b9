"""The machine as Ollama saw it: its GPUs, processor and memory, where nothing better tells of them."""

import re
from typing import Any

from unslow.facts.machine import Cpu, Gpu, Machine, Memory, System
from unslow.facts.runtime import SeenDevice
from unslow.facts.values import NOT_LOOKED, Fact, Known, reported
from unslow.look.logs.ollama.state import Reading

_VENDORS = {"cuda": "NVIDIA", "rocm": "AMD", "metal": "Apple", "oneapi": "Intel"}
_NUMBERS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")  # ROCm on Linux was named by the numbers of its PCI device


def machine_of(reading: Reading) -> Machine:
    """What the lines tell of the hardware."""
    devices = list(reading.devices.values())
    gpus = tuple(_gpu(index, device, where) for index, (device, where) in enumerate(devices))
    return Machine(
        gpus=reported(gpus, devices[0][1]) if gpus else NOT_LOOKED,
        cpu=Cpu(**reading.cpu),
        memory=Memory(**reading.memory),
        system=System(**reading.system),
    )


def _gpu(index: int, device: SeenDevice, where: str) -> Gpu:
    capability = device.compute_capability
    amd = str(capability.value_or("")).startswith("gfx")
    named = device.description and not _NUMBERS.fullmatch(device.description)
    vendor = _VENDORS.get(device.library.lower(), "")
    return Gpu(
        index=index,
        vendor=reported(vendor, where) if vendor else NOT_LOOKED,
        name=reported(device.description, where) if named else NOT_LOOKED,
        kind=_kind(device.integrated),
        vram_total_bytes=device.total_bytes,
        compute_capability=NOT_LOOKED if amd or vendor != "NVIDIA" else capability,
        architecture=capability if amd else NOT_LOOKED,
    )


def _kind(integrated: Fact[bool]) -> Fact[Any]:
    if not isinstance(integrated, Known):
        return NOT_LOOKED
    return reported("integrated" if integrated.value else "discrete", integrated.source)
