"""What kind of machine a case runs on: whose memory a GPU uses, how much there is, what a name tells."""

import re

from unslow.catalog.device import Device
from unslow.catalog.devices import find_device
from unslow.catalog.unified_memory import unified_memory
from unslow.facts.account import Topic
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import remarks_on
from unslow.think.adapt.vram import gpus_of, gpus_used

_INTEGRATED = re.compile(
    r"\bIntel\b(?!.*\bArc\b).*\b(?:Graphics|Mobile)\b|\bArc(?:\(TM\))? (?:1[34]0[VT]|Graphics)"
    r"|\b(?:U?HD|Iris|Vega \d{1,2}|Radeon(?:\(TM\))? (?:R\d )?Graphics|(?:6|7|8)\d{2}[MS]|80[456]0S)\b(?! ?XT)",
    re.IGNORECASE,
)
_APPLE = re.compile(
    r"\bApple\b|\bM[1-9]\d?(?: (?:Pro|Max|Ultra))?\b|\bMac(?:Book|OS|mini| Studio| Pro|\b)", re.IGNORECASE
)

_MAC_ONLY = re.compile(r"\bv?mlx\b|\bmlx[-_]", re.IGNORECASE)


MUCH_FASTER = 1.5
"""Of the bandwidths: between GPUs that are closer, other reasons decide which is used."""


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
    fast, slow = device_of(one), device_of(other)
    return bool(fast and slow and fast.memory_bytes_per_s > MUCH_FASTER * slow.memory_bytes_per_s > 0)


def is_integrated_name(name: str) -> bool:
    """Whether a device of this name shares the host's memory."""
    known = find_device(name)
    return known.unified if known else bool(_INTEGRATED.search(name))


def is_apple(case: Case) -> bool:
    """Whether the machine is a Mac: by its names, by a limit that only macOS has, or by an engine that needs one."""
    machine = case.machine
    if isinstance(machine.memory.wired_limit_bytes, Known) or _MAC_ONLY.search(case.runtime.name.value_or("")):
        return True
    names = [machine.system.name.value_or(""), machine.cpu.model.value_or("")]
    names += [f"{g.vendor.value_or('')} {g.name.value_or('')}" for g in gpus_of(case)]
    return any(_APPLE.search(name) for name in names)


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
