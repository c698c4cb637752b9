"""One GPU: what its driver, the runtime and the catalog say of it, and which device of a runtime it is."""

import re
from collections.abc import Sequence

from unslow.catalog.devices import Device, find_device
from unslow.catalog.hardware_families import find_gpu_family
from unslow.facts.machine import Gpu
from unslow.facts.runtime import SeenDevice
from unslow.facts.values import Known, first_known
from unslow.think.case.group import missing

UNVERIFIED_SPREAD = 1.3  # of a catalog entry that nobody has checked
SLOWEST_BYTES_PER_S = 1e8  # No memory that runs a model is slower; a figure below it is a mistake
_FAMILY_BY_CAPABILITY = {
    "6": "pascal",
    "7.0": "volta",
    "7.5": "turing",
    "8.9": "ada",
    "8.0": "ga100",
    "8": "ampere",
    "9": "hopper",
    "1": "blackwell",
}
MUCH_FASTER = 1.5  # Of the bandwidths: between GPUs that are closer, other reasons decide which is used
_VENDORS = {"CUDA": "NVIDIA", "ROCm": "AMD", "HIP": "AMD"}
_NOISE = re.compile(
    r"\((?:tm|r|radv[^()]{0,200}|[0-9a-f:.]{1,40})\)|\b(?:nvidia|amd|intel|corporation|geforce)\b", re.IGNORECASE
)
"""What some sources put into the name of a GPU and others leave out."""
_MOST_DIGITS = 4

SOFTWARE = re.compile(
    r"llvmpipe|lavapipe|swiftshader|physical_device_type_cpu|device type is cpu|microsoft basic render", re.IGNORECASE
)
"""What names a software renderer, the CPU posing as a GPU."""


def device_bandwidth(gpu: Gpu) -> tuple[float, float]:
    """Bytes per second of a GPU's memory, by its bus or the catalog, and how much more than usual it may be off."""
    # Every memory of a GPU moves two bits per pin and reported clock (HBM, GDDR6, GDDR6X alike).
    by_bus = gpu.memory_clock_max_hz.value_or(0) * 2 * gpu.memory_bus_bits.value_or(0) / 8
    if by_bus >= SLOWEST_BYTES_PER_S:
        return by_bus, 1.0
    device = find_device(gpu.name.need(), int(gpu.vram_total_bytes.value_or(0)))
    if device is None:
        raise missing(f"the memory bandwidth of {gpu.name.need()}: not in the catalog")
    return device.memory_bytes_per_s, 1.0 if device.is_verified else UNVERIFIED_SPREAD


def family_of(gpu: Gpu) -> str:
    """The architecture of a GPU: by what its driver says of it, else by the catalog."""
    capability = gpu.compute_capability.value_or("")
    for prefix, family in _FAMILY_BY_CAPABILITY.items():
        if capability.startswith(prefix):
            return family
    device = device_of(gpu)
    return device.family if device else ""


def device_of(gpu: Gpu) -> Device | None:
    """The catalog's entry of a GPU."""
    return find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))


def is_integrated(gpu: Gpu) -> bool:
    """Whether a GPU shares the host's memory: as its driver says, else by its name."""
    if isinstance(gpu.kind, Known):
        return gpu.kind.value == "integrated"
    known = device_of(gpu)
    return known.is_unified if known else is_integrated_name(gpu.name.value_or(""))


def has_far_more_bandwidth(fast: Device | None, slow: Device | None) -> bool:
    """Whether the memory of one device is so much faster that it decides; False where one of them is not known."""
    return bool(fast and slow and fast.memory_bytes_per_s > MUCH_FASTER * slow.memory_bytes_per_s > 0)


def is_integrated_name(name: str) -> bool:
    """Whether a device of this name shares the host's memory."""
    known = find_device(name) or find_gpu_family(name)
    return known.is_unified if isinstance(known, Device) else known is not None and known.unified


def gpu_capacity_bytes(gpu: Gpu) -> int:
    """All memory of one GPU: as reported, else by the catalog; 0 where neither tells."""
    known = device_of(gpu)
    return gpu.vram_total_bytes.value_or(0) or (known.capacity_bytes if known else 0)


def candidate_gpus(device: SeenDevice, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that have the name of a device; those of its maker, where it has none."""
    if not device.description:
        maker = _VENDORS.get(_prefix(device.name), "")
        return tuple(gpu for gpu in gpus if not maker or gpu.vendor.value_or(maker) == maker)
    wanted = _words(device.description)
    named = [(gpu, _words(gpu.name.value_or(""))) for gpu in gpus if gpu.name.value_or("")]
    same = tuple(gpu for gpu, words in named if words == wanted)
    # Or the catalog takes both for the same: the size of the memory tells some that share a name
    entries = ((gpu, first_known(device.total_bytes, gpu.vram_total_bytes).value_or(0)) for gpu, _ in named)
    known = ((gpu, device_of(gpu), find_device(device.description, int(total))) for gpu, total in entries)
    same = same or tuple(gpu for gpu, own, seen in known if own is not None and own == seen)
    return same or tuple(gpu for gpu, words in named if words and wanted and (words in wanted or wanted in words))


def one_of(
    device: SeenDevice, seen: Sequence[SeenDevice], alike: tuple[Gpu, ...], order: list[int] | None
) -> tuple[Gpu, ...]:
    """Of GPUs with one name the one that a device is: they have the same numbers, or are listed in the same order."""
    number = number_of(device.name)
    if len(alike) < 2 or number is None:  # noqa: PLR2004 (several)
        return alike
    if order is not None:
        place = order[number] if number < len(order) else -1
        return tuple(gpu for gpu in alike if gpu.index == place) or alike
    twins = [o.name for o in seen if _prefix(o.name) == _prefix(device.name) and candidate_gpus(o, alike)]
    return (alike[twins.index(device.name)],) if len(twins) == len(alike) and device.name in twins else alike


def number_of(name: str) -> int | None:
    """The number at the end of a device's name, such as CUDA0; None where there is none."""
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if 0 < len(digits) <= _MOST_DIGITS else None


def _prefix(name: str) -> str:
    return name.rstrip("0123456789")


def _words(name: str) -> str:
    return " ".join(_NOISE.sub(" ", name).lower().split())


def is_gpu(device: SeenDevice) -> bool:
    """Whether a device that the runtime lists is a GPU, and not a software renderer."""
    return device.name.upper() != "CPU" and device.library.lower() != "cpu" and not SOFTWARE.search(title(device))


def title(device: SeenDevice) -> str:
    """The name of a device and what the runtime says of it."""
    return f"{device.name} {device.description}".strip()


def names_same_device(one: str, other: str) -> bool:
    """Whether two names mean one device: one contains the other, or both are one entry of the catalog."""
    a, b, device = one.lower(), other.lower(), find_device(one)
    return a in b or b in a or (device is not None and device == find_device(other))


def rank_by_bandwidth(name: str) -> float:
    """The memory bandwidth of a device; a card that the catalog lacks still ranks before an integrated GPU."""
    device = find_device(name)
    return (device.memory_bytes_per_s if device else 0.0) or (0.0 if is_integrated_name(name) else 1.0)


def is_much_faster(idle: str, used: str) -> bool:
    """Whether one is a card and the other an integrated GPU, or it has far more memory bandwidth."""
    if is_integrated_name(used) != is_integrated_name(idle):
        return is_integrated_name(used)
    return has_far_more_bandwidth(find_device(idle), find_device(used))
