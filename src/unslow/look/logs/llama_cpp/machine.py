"""The machine as llama.cpp saw it: its GPUs, processor and memory, where nothing better tells of them."""

from collections import Counter
from typing import Literal

from unslow.facts.machine import Cpu, Gpu, Machine, Memory
from unslow.facts.runtime import SeenDevice
from unslow.facts.values import NOT_LOOKED, Fact, Known, reported
from unslow.look.logs.llama_cpp.start import backend_of
from unslow.look.logs.llama_cpp.state import Reading

_MAKERS = {"CUDA": "NVIDIA", "ROCm": "AMD", "Metal": "Apple", "SYCL": "Intel", "MUSA": "Moore Threads"}


def machine_of(reading: Reading) -> Machine:
    """What the lines tell of the hardware."""
    gpus = tuple(_gpu(index, device, where) for index, (device, where) in enumerate(_distinct(reading)))
    known: Fact[tuple[Gpu, ...]] = NOT_LOOKED
    if gpus:
        known = reported(gpus, next(where for _, where in reading.devices.values()))
    return Machine(cpu=Cpu(**reading.cpu), memory=Memory(**reading.memory), gpus=known)


def _distinct(reading: Reading) -> list[tuple[SeenDevice, str]]:
    """Every GPU once: a build with two backends lists the same ones under both."""
    most: dict[str, Counter[str]] = {}
    for device, _ in reading.devices.values():
        most.setdefault(device.description, Counter())[backend_of(device.name)] += 1
    chosen = {description: backends.most_common(1)[0][0] for description, backends in most.items()}
    return [each for each in reading.devices.values() if backend_of(each[0].name) == chosen[each[0].description]]


def _gpu(index: int, device: SeenDevice, where: str) -> Gpu:
    capability = device.compute_capability
    amd = str(capability.value_or("")).startswith("gfx")
    maker = _MAKERS.get(backend_of(device.name), "")
    return Gpu(
        index=index,
        vendor=reported(maker, where) if maker else NOT_LOOKED,
        kind=_kind(device.integrated),
        name=reported(device.description, where) if device.description else NOT_LOOKED,
        vram_total_bytes=device.total_bytes,
        compute_capability=NOT_LOOKED if amd else capability,
        architecture=capability if amd else NOT_LOOKED,
    )


def _kind(integrated: Fact[bool]) -> Fact[Literal["integrated", "discrete"]]:
    if not isinstance(integrated, Known):
        return NOT_LOOKED
    return reported("integrated" if integrated.value else "discrete", integrated.source)
