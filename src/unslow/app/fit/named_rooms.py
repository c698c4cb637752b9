"""The memory of a device that is not here, by its name or by the size of its memory."""

import re

from unslow.app.fit.device_lists import SIZE_ALONE
from unslow.app.fit.request import parsed_size
from unslow.catalog.device_names import (
    Written,
    devices_meant,
    is_near_size,
    is_one_model,
    near_devices,
    parse_device_name,
)
from unslow.catalog.devices import Device
from unslow.catalog.unified_memory import unified_memory
from unslow.facts.errors import UserError
from unslow.facts.units import GIB
from unslow.think.fit.rooms import CUDA_CONTEXT_BYTES, Room, driver_reserve
from unslow.think.speed.chips import usual_backend

_SIZE_IN_NAME = re.compile(r"(?<!\s)\s*\b\d+GB\b")
_EXAMPLE_BYTES = 16 * GIB
_NAMES_SHOWN = 8


def named_room(name: str, ram_bytes: int | None = None) -> Room:
    """The memory of a device of the catalogue, or of a size; UserError where it can't be known."""
    if SIZE_ALONE.fullmatch(name):
        size = _size(name)
        return Room(name, size, reserve_bytes=driver_reserve(size))
    written = parse_device_name(name)
    variants = _variants(name, written)
    return _of_size(variants, _size(written.sizes[0])) if written.sizes else _usual(variants, ram_bytes)


def _variants(name: str, written: Written) -> list[Device]:
    """The one model that is meant, in all its sizes and forms."""
    if len(written.sizes) > 1:
        raise UserError(f"{name!r} has {len(written.sizes)} sizes of memory", "leave one of them")
    variants = devices_meant(written.words)
    if not variants:
        raise UserError(f"the catalogue has no device {name!r}", _hint(name, written))
    if not is_one_model(variants):
        raise UserError(f"{name!r} could be one of several devices", f"say which: {_names(variants[:_NAMES_SHOWN])}")
    return variants


def unified_room(name: str, device: Device, size: int, note: str = "") -> Room:
    """A memory that the GPU shares with the host."""
    kind = unified_memory(device.vendor)
    for_gpu = kind.gpu_bytes(size)
    said = kind.note.format(gpu=_shown(for_gpu), total=_shown(size))
    kept = max(size - for_gpu, driver_reserve(size))
    context = 0 if device.vendor == "Apple" else CUDA_CONTEXT_BYTES
    notes = "; ".join(filter(None, (note, said, _backend_note(device))))
    return Room(name, size, reserve_bytes=kept, unified=True, context_bytes=context, note=notes)


def _backend_note(device: Device) -> str:
    """That buffers were only compared with CUDA's."""
    amd = {"rocm": "ROCm, the usual backend there,", "vulkan": "Vulkan, the usual backend there,"}
    usual = {"Apple": "Metal", "AMD": amd.get(usual_backend(device), ""), "Intel": "SYCL or Vulkan"}
    backend = usual.get(device.vendor, "")
    return f"buffers are counted as CUDA lays them out; {backend} was not compared" if backend else ""


def _of_size(variants: list[Device], size: int) -> Room:
    """The variant with that memory, or a card that somebody has given another one."""
    same = [d for d in variants if any(s and is_near_size(s, size) for s in (d.memory_bytes, d.driver_bytes))]
    if same:
        return _room(min(same, key=_smallest_first))
    device = min(variants, key=_smallest_first)
    name = _SIZE_IN_NAME.sub("", device.name)
    known = sorted({d.memory_bytes for d in variants if d.memory_bytes and not d.unified})
    note = f"{name} has {' or '.join(map(_shown, known))} in the catalogue, this one {_shown(size)}" if known else ""
    return _room(device, f"{name} {_label(size)}", size, note)


def _usual(variants: list[Device], ram_bytes: int | None) -> Room:
    """The one that a name without a size means: where several are sold, the smaller one."""
    common = [d for d in variants if not _SIZE_IN_NAME.search(d.name)] or variants
    device = min(common, key=_smallest_first)
    if not device.memory_bytes:
        if not ram_bytes:
            raise UserError(f"the {device.name} comes with several sizes of memory", f'add yours: "{device.name} 32GB"')
        return _of_size(variants, ram_bytes)
    others = [d.name for d in variants if d.memory_bytes != device.memory_bytes]
    taken = f"{device.name} is taken, with {_shown(device.memory_bytes)}; there is also {', '.join(others)}"
    return _room(device, note=taken if others else "")


def _room(device: Device, name: str = "", size: int = 0, note: str = "") -> Room:
    capacity = size or device.capacity_bytes
    if device.unified:
        return unified_room(name or device.name, device, capacity, note)
    notes = "; ".join(filter(None, (note, _backend_note(device))))
    return Room(name or device.name, capacity, reserve_bytes=driver_reserve(capacity), note=notes)


def _smallest_first(device: Device) -> tuple[int, bool]:
    """Where two forms have the same memory, the one that drivers do not name."""
    return device.memory_bytes, "SXM" not in device.name


def _size(text: str) -> int:
    size = parsed_size(text)
    if not size:
        raise UserError(f"a device with {text.upper()} of memory can't be", "leave it out, or use --device cpu")
    return size


def _hint(name: str, written: Written) -> str:
    if name.isdigit():
        return f"if that is the size of its memory: {name}GB"
    near = near_devices(written.words)
    size = near[0].memory_bytes if near and near[0].memory_bytes else _EXAMPLE_BYTES
    example = written.sizes[0].upper() if written.sizes else _label(size)
    if not near:
        return f"give the size of its memory instead: {example}"
    return f"did you mean {_names(near)}? The size of its memory alone works too: {example}"


def _names(devices: list[Device]) -> str:
    names = list(dict.fromkeys(d.name for d in devices))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _shown(size: int) -> str:
    return f"{size / GIB:.4g} GiB"


def _label(size: int) -> str:
    """As it is sold."""
    return f"{size / GIB:.4g}GB"
