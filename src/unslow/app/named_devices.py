"""Devices as people write them: `RTX 3090 x2 + 24GB`, `M3 Max 64GB`; and the memory of each, by the catalogue."""

import re

from unslow.catalog.device_names import (
    Written,
    devices_meant,
    is_near_size,
    is_one_model,
    near_devices,
    parse_device_name,
)
from unslow.catalog.devices import Device
from unslow.commands._values import size_of
from unslow.facts.errors import UserError
from unslow.facts.units import GIB
from unslow.think.hardware import Room, backend_note, driver_reserve, unified_room

_BETWEEN = re.compile(r"(?<!\s)\s*(?:,|&|(?<!max)\+|\band\b)\s*", re.IGNORECASE)  # a Ryzen AI Max+ has one of its own
_BEFORE = re.compile(r"(\d{1,9})\s*[x×*](?!tx?\b)\s*(\S.*)", re.IGNORECASE)  # an RX 7900 XTX is no count of 7900
_AFTER = re.compile(r"(.+?)(?:(?<!\s)\s+[x×*]\s*|(?<=[\db)])[x×*])(\d{1,9})", re.IGNORECASE)
_LAST = re.compile(r"(.+?)(?<!\s)\s+(\d{1,3})\s*[x×*]", re.IGNORECASE)
_BARE = re.compile(r"(\d{1,2})\s+(?![gmt](?:i?b)?\b)(\S.*)", re.IGNORECASE)
_SIZE_ALONE = re.compile(r"\d{1,9}(?:\.\d{1,9})?\s*[gmt](?:i?b)?", re.IGNORECASE)
_SIZE_IN_NAME = re.compile(r"(?<!\s)\s*\b\d+GB\b")
MOST_DEVICES = 64
LONGEST_LIST = 2000
_EXAMPLE_BYTES = 16 * GIB
_NAMES_SHOWN = 8


def parse_device_list(texts: tuple[str, ...]) -> list[str]:
    """The name of each device, as often as there are such devices; UserError for counts that can't be."""
    if any(len(text) > LONGEST_LIST for text in texts):
        raise UserError(
            f"a list of devices has more than {LONGEST_LIST} letters", "write it like 2x RTX 3090, RTX 3060"
        )
    names: list[str] = []
    for part in (part for text in texts for part in _BETWEEN.split(text.strip())):
        count, name = _counted(part)
        if not name:
            raise UserError("a device has no name", "separate several with a comma: RTX 3060, RTX 3090")
        if not 1 <= count <= MOST_DEVICES or len(names) + count > MOST_DEVICES:
            raise UserError(f"{count} devices can't be: {part!r}", f"1 to {MOST_DEVICES} in all, as in 2x RTX 3090")
        names += [name] * count
    return names


def _counted(text: str) -> tuple[int, str]:
    """How many, and of what."""
    before, after = _BEFORE.fullmatch(text), _AFTER.fullmatch(text)
    if before and after and before[2].isdigit():  # 2x4090, or 4090x2: nobody has thousands
        return min((int(before[1]), before[2]), (int(after[2]), after[1]))
    if is_size_alone(text):
        return 1, text
    if first := before or _BARE.fullmatch(text):
        return int(first[1]), first[2]
    if last := after or _LAST.fullmatch(text):
        return int(last[2]), last[1]
    return 1, text


def is_size_alone(text: str) -> bool:
    """Whether a device is named by the size of its memory and nothing else."""
    return _SIZE_ALONE.fullmatch(text) is not None


def named_room(name: str, ram_bytes: int | None = None) -> Room:
    """The memory of a device of the catalogue, or of a size; UserError where it can't be known."""
    if is_size_alone(name):
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
    notes = "; ".join(filter(None, (note, backend_note(device))))
    return Room(name or device.name, capacity, reserve_bytes=driver_reserve(capacity), note=notes)


def _smallest_first(device: Device) -> tuple[int, bool]:
    """Where two forms have the same memory, the one that drivers do not name."""
    return device.memory_bytes, "SXM" not in device.name


def _size(text: str) -> int:
    size = size_of(text)
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
