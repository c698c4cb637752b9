"""Which GPUs of the machine the devices are that a runtime names: by a name that only one has, else by number."""

import re
from collections.abc import Sequence

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.runtime import SeenDevice
from unslow.facts.snapshot import Case

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")
_VENDORS = {"CUDA": "NVIDIA", "ROCm": "AMD", "HIP": "AMD"}
_NOISE = re.compile(
    r"\((?:tm|r|radv[^()]{0,200}|[0-9a-f:.]{1,40})\)|\b(?:nvidia|amd|intel|corporation|geforce)\b", re.IGNORECASE
)
"""What some sources put into the name of a GPU and others leave out."""
_MOST_DIGITS = 4


def gpus_named(
    case: Case, devices: Sequence[SeenDevice], seen: Sequence[SeenDevice], gpus: tuple[Gpu, ...]
) -> tuple[Gpu, ...]:
    """The GPUs that these devices are, `seen` being all that the runtime lists; of alike ones all that it may be."""
    order = visible(case, gpus) if _in_order(case, gpus) else None
    chosen = [gpu for device in devices for gpu in _one_of(device, seen, candidates(device, gpus), order)]
    return tuple(gpu for gpu in gpus if gpu in chosen)


def candidates(device: SeenDevice, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that have the name of a device; those of its maker, where it has none."""
    if not device.description:
        maker = _VENDORS.get(_prefix(device.name), "")
        return tuple(gpu for gpu in gpus if not maker or gpu.vendor.value_or(maker) == maker)
    for alike in (_same_words, _same_device, _part_of):
        found = tuple(gpu for gpu in gpus if gpu.name.value_or("") and alike(gpu, device))
        if found:
            return found
    return ()


def set_aside(case: Case, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that settings leave to the runtime; all of them where none does, or where numbers may mean another."""
    runtime = case.runtime
    asked = [name for name in runtime.device_set.value_or("").split(",") if name[-1:].isdigit()]
    if asked:
        named = [SeenDevice(name=name.strip()) for name in asked]
        return gpus_named(case, named, named, gpus) or gpus
    if not _in_order(case, gpus):
        return gpus
    left = tuple(gpu for gpu in gpus if gpu.index in visible(case, gpus)) or gpus
    alone = runtime.main_gpu.value_or(0) if runtime.split_mode.value_or("") == "none" else -1
    return left[alone : alone + 1] or left if alone >= 0 else left


def visible(case: Case, gpus: tuple[Gpu, ...]) -> list[int]:
    """The numbers of the GPUs that the environment leaves visible, in the runtime's order; all where it hides none."""
    environment = case.runtime.environment.value_or({})
    for value in (environment[name] for name in _VISIBLE if name in environment):
        numbers = [part.strip() for part in value.strip("\"' ").split(",")]
        if all(number.isdecimal() and len(number) <= _MOST_DIGITS for number in numbers):
            return [int(number) for number in numbers]
    return [gpu.index for gpu in gpus]


def _one_of(
    device: SeenDevice, seen: Sequence[SeenDevice], alike: tuple[Gpu, ...], order: list[int] | None
) -> tuple[Gpu, ...]:
    """Of GPUs with one name the one that a device is: they have the same numbers, or are listed in the same order."""
    number = number_of(device.name)
    if len(alike) < 2 or number is None:  # noqa: PLR2004 (several)
        return alike
    if order is not None:
        place = order[number] if number < len(order) else -1
        return tuple(gpu for gpu in alike if gpu.index == place) or alike
    twins = [o.name for o in seen if _prefix(o.name) == _prefix(device.name) and candidates(o, alike)]
    return (alike[twins.index(device.name)],) if len(twins) == len(alike) and device.name in twins else alike


def _in_order(case: Case, gpus: tuple[Gpu, ...]) -> bool:
    """Whether CUDA numbers them as the driver does: it puts the fastest first, unless told otherwise."""
    by_bus = case.runtime.environment.value_or({}).get("CUDA_DEVICE_ORDER", "") == "PCI_BUS_ID"
    return by_bus or len({gpu.name.value_or("") for gpu in gpus}) == 1


def number_of(name: str) -> int | None:
    """The number at the end of a device's name, such as CUDA0; None where there is none."""
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if 0 < len(digits) <= _MOST_DIGITS else None


def _prefix(name: str) -> str:
    return name.rstrip("0123456789")


def _words(name: str) -> str:
    return " ".join(_NOISE.sub(" ", name).lower().split())


def _same_words(gpu: Gpu, device: SeenDevice) -> bool:
    return _words(gpu.name.value_or("")) == _words(device.description)


def _same_device(gpu: Gpu, device: SeenDevice) -> bool:
    """Whether the catalogue takes both for the same; the size of the memory tells some that share a name."""
    total = int(gpu.vram_total_bytes.value_or(0))
    known = find_device(gpu.name.value_or(""), total)
    return known is not None and known == find_device(device.description, int(device.total_bytes.value_or(total)))


def _part_of(gpu: Gpu, device: SeenDevice) -> bool:
    name, description = _words(gpu.name.value_or("")), _words(device.description)
    return bool(name and description) and (name in description or description in name)
