"""What kind of machine a case runs on: whose memory a GPU uses, how much there is, what a name tells."""

import re

from unslow.catalog.device import Device
from unslow.catalog.device_words import parse_device_name
from unslow.catalog.devices import find_device
from unslow.catalog.gpu_families import find_gpu_family
from unslow.catalog.unified_memory import unified_memory
from unslow.facts.account import Topic
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import remarks_on
from unslow.think.adapt.remembered import once
from unslow.think.adapt.vram import gpus_of, gpus_used

_APPLE = re.compile(r"\bApple\b|\bi?Mac(?:Book|OS|mini| Studio| Pro|\b)|\bDarwin\b", re.IGNORECASE)
_BARE_CHIP = re.compile(r"M[1-9](?: (?:Pro|Max|Ultra))?\b(?!-)", re.IGNORECASE)
"""How people shorten the names of Apple's chips; others have such names too."""
_MLX = re.compile(r"\bv?mlx\b|\bmlx[-_]", re.IGNORECASE)
MUCH_FASTER = 1.5
"""Of the bandwidths: between GPUs that are closer, other reasons decide which is used."""
SURELY_FREE = 0.75
"""Of a card's memory, where nobody looked: a desktop with a browser takes one to two of the usual eight GiB or more."""


def device_of(gpu: Gpu) -> Device | None:
    """The catalogue's entry of a GPU."""
    return find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))


def is_integrated(gpu: Gpu) -> bool:
    """Whether a GPU shares the host's memory: as its driver says, else by its name."""
    if isinstance(gpu.kind, Known):
        return gpu.kind.value == "integrated"
    known = device_of(gpu)
    return known.unified if known else is_integrated_name(gpu.name.value_or(""))


def is_much_faster(one: Gpu, other: Gpu) -> bool:
    """Whether the memory of one GPU has far more bandwidth than that of another, by the catalogue."""
    return has_far_more_bandwidth(device_of(one), device_of(other))


def has_far_more_bandwidth(fast: Device | None, slow: Device | None) -> bool:
    """Whether the memory of one device is so much faster that it decides; False where one of them is not known."""
    return bool(fast and slow and fast.memory_bytes_per_s > MUCH_FASTER * slow.memory_bytes_per_s > 0)


def is_integrated_name(name: str) -> bool:
    """Whether a device of this name shares the host's memory."""
    known = find_device(name) or find_gpu_family(name)
    return known is not None and known.unified


@once
def is_apple(case: Case) -> bool:
    """Whether the machine is a Mac: by its names, by a limit that only macOS has, or by an engine that needs one."""
    machine = case.machine
    system, cpu = machine.system.name.value_or(""), machine.cpu.model.value_or("")
    mlx = not system and _MLX.search(case.runtime.name.value_or(""))  # Linux has mlx[cpu] and mlx[cuda]
    if isinstance(machine.memory.wired_limit_bytes, Known) or mlx:
        return True
    if _APPLE.search(system) or _APPLE.search(cpu) or (not system and _BARE_CHIP.fullmatch(cpu.strip())):
        return True
    return any(_is_of_apple(gpu, system) for gpu in gpus_of(case))


def _is_of_apple(gpu: Gpu, system: str) -> bool:
    """By its maker; the bare name of a chip counts where nothing names another maker or system."""
    name, maker = gpu.name.value_or(""), gpu.vendor.value_or("")
    if maker or _APPLE.search(name):
        return bool(_APPLE.search(maker or name))
    return not system and not parse_device_name(name).vendors and bool(_BARE_CHIP.match(name.strip()))


def is_unified(case: Case) -> bool:
    """Whether GPU and host share one memory."""
    gpus = gpus_used(case)
    return is_apple(case) or (bool(gpus) and all(is_integrated(g) for g in gpus))


def is_windows(case: Case) -> bool:
    """Whether it runs on Windows."""
    return "windows" in case.machine.system.name.value_or("").lower()


def has_no_gpu(case: Case) -> bool:
    """Whether the machine has no GPU: looked at, or told."""
    gpus = case.machine.gpus
    if isinstance(gpus, Known):
        return not gpus.value
    return bool(remarks_on(case, Topic.GPU_ABSENT))


def vram_total_bytes(case: Case) -> float | None:
    """What the GPUs in use have: as reported, else by the catalogue; None where it is not known of each."""
    sizes = [g.vram_total_bytes.value_or(0) or _labelled_bytes(g) for g in gpus_used(case)]
    return float(sum(sizes)) if sizes and all(sizes) else None


def _labelled_bytes(gpu: Gpu) -> int:
    known = device_of(gpu)
    return known.capacity_bytes if known else 0


def unified_limit_bytes(case: Case) -> float | None:
    """The most that the GPU of a unified memory may take: as set, else what its vendor's systems give by default."""
    memory = case.machine.memory
    if isinstance(memory.wired_limit_bytes, Known) and memory.wired_limit_bytes.value:
        return float(memory.wired_limit_bytes.value)
    if not isinstance(memory.total_bytes, Known) or not is_apple(case):
        return None
    return float(unified_memory("Apple").gpu_bytes(memory.total_bytes.value))
