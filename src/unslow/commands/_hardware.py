"""The hardware that a user means: devices by name, this machine, or a part of it.

`find_memory` tells how much memory there is, which is all that `fit` needs: a size alone will do, and this machine's
devices beside named ones. `find_hardware` tells how fast it is too, for `predict`, `plan` and `buy`.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from unslow.catalog.device_names import devices_meant, find_cpu, find_written, is_near_size, is_one_model, near_devices
from unslow.catalog.devices import Device, WrittenName, all_devices, find_device, parse_device_name
from unslow.commands._request import size_of
from unslow.facts.errors import UserError
from unslow.facts.machine import Gpu, Machine
from unslow.facts.merge import computing_gpus, overlaid
from unslow.facts.values import GB, GIB, Unknown
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.probes import read_machine
from unslow.look.system import System
from unslow.think.case.physics import core_flops_of
from unslow.think.hardware import (
    USUAL_PROCESSORS,
    Hardware,
    Processors,
    Room,
    backend_note,
    driver_reserve,
    memory_of_machine,
    unified_room,
    usual_threads,
    with_memory_note,
)
from unslow.think.physics.placement import link_bytes_per_s
from unslow.think.speed.question import USUAL_LINK, core_count, core_flops_per_s, gpu_chip, has_peers

MOST_DEVICES = 64
LONGEST_LIST = 2000
_AUTO = "auto"
_THIS_MACHINE = frozenset({_AUTO, "cpu", "none"})
_MAKERS = {
    "cuda": ("NVIDIA",), "rocm": ("AMD",), "hip": ("AMD",), "metal": ("Apple",), "mlx": ("Apple",), "sycl": ("Intel",),
}  # fmt: skip
_HINT = "--device takes names such as RTX 4090, M3 Max or Ryzen 9 7950X"
_ORDER = "GPUs are numbered fastest first, as in CUDA: `llama-server --list-devices` shows the order"
_NAMES_SHOWN = 6
_SHARE_OF_UNIFIED = 0.5
"""Of a memory that a GPU shares with processors, what these alone can draw: about so on M1 Max and Strix Halo."""
_USUAL_LANES = 16
_USUAL_SLOT = (4, _USUAL_LANES)
"""The generation and the lanes of a desktop since 2019, for devices that are not here to be asked."""
_EXAMPLE_BYTES = 16 * GIB
_BETWEEN = re.compile(r"(?<!\s)\s*(?:,|&|(?<!max)\+|\band\b)\s*", re.IGNORECASE)  # a Ryzen AI Max+ has one of its own
_BEFORE = re.compile(r"(\d{1,9})\s*[x×*](?!tx?\b)\s*(\S.*)", re.IGNORECASE)  # an RX 7900 XTX is no count of 7900
_AFTER = re.compile(r"(.+?)(?:(?<!\s)\s+[x×*]\s*|(?<=[\db)])[x×*])(\d{1,9})", re.IGNORECASE)
_LAST = re.compile(r"(.+?)(?<!\s)\s+(\d{1,3})\s*[x×*]", re.IGNORECASE)
_BARE = re.compile(r"(\d{1,2})\s+(?![gmt](?:i?b)?\b)(\S.*)", re.IGNORECASE)
_SIZE_ALONE = re.compile(r"\d{1,9}(?:\.\d{1,9})?\s*[gmt](?:i?b)?", re.IGNORECASE)
_SIZE_IN_NAME = re.compile(r"(?<!\s)\s*\b\d+GB\b")


class HardwareRequest(NamedTuple):
    """What of a request decides which hardware is meant, and how fast it is."""

    devices: tuple[str, ...] = (_AUTO,)
    gpus: int | None = None
    ram_bytes: int | None = None
    ram_bandwidth: float | None = None  # Bytes per second that the host's memory delivers
    threads: int | None = None
    backend: str = ""
    runtime: str = "llama.cpp"
    gpu_layers: int | None = None


def find_memory(system: System, names: tuple[str, ...], ram_bytes: int | None) -> Hardware:
    """The devices' memory and the host's: None where it is not known, or where it is the devices' own.

    `auto` and `cpu` speak of this machine, whose memory is then the host's. What was assumed stands in the notes.
    """
    words = parse_device_list(names)
    special = {word.casefold() for word in words} & _THIS_MACHINE
    named = tuple(named_room(word, ram_bytes) for word in words if word.casefold() not in special)
    if special:
        here = memory_of_machine(read_machine(system)[0], ram_bytes)
    else:
        here = Hardware(host_room=Room("host", ram_bytes) if ram_bytes else None)
    if _AUTO in special and not here.rooms:
        unread = here.host_room.note if here.host_room else ""
        return with_memory_note(here._replace(rooms=named), unread or "no GPU found on this machine")
    rooms = (*here.rooms, *named) if _AUTO in special else named
    if not rooms or not all(room.unified for room in rooms):
        return here._replace(rooms=rooms)
    shared = here._replace(rooms=rooms, host_room=None)
    asked_apart = bool(ram_bytes) and any(room.capacity_bytes != ram_bytes for room in rooms)
    return with_memory_note(shared, "--ram is ignored: GPU and host share this memory") if asked_apart else shared


def find_hardware(system: System, asked: HardwareRequest, *, unlike: bool = False) -> Hardware | Unknown:
    """The hardware that is asked for; Unknown where its speed can't be told, UserError where there is none such.

    With `unlike` it may have GPUs of different kinds.
    """
    names = parse_device_list(asked.devices)
    kinds = list(dict.fromkeys(name.casefold() for name in names))
    if len(kinds) > 1:
        if not unlike or _THIS_MACHINE & set(kinds):
            return _not_together(names)
        every = [named_hardware(name, 1, asked) for name in names]
        unknown = next((one for one in every if isinstance(one, Unknown)), None)
        known = [one for one in every if isinstance(one, Hardware) and one.rooms]
        if unknown or len(known) < len(names):
            return unknown or _not_together(names)
        notes = dict.fromkeys(note for one in known for note in one.notes)
        pairs = [(one.device, one.rooms[0]) for one in known]
        return _together(pairs, known[0]._replace(notes=tuple(notes))) or _not_together(names)
    if asked.gpus and len(names) not in (1, asked.gpus):
        raise UserError(f"{len(names)} devices contradict --gpus {asked.gpus}", "omit --gpus")
    if kinds[0] in _THIS_MACHINE:
        return _this_machine(system, asked, wants_gpu=kinds[0] == _AUTO, unlike=unlike)
    return named_hardware(names[0], asked.gpus or len(names), asked)


def named_hardware(name: str, count: int, asked: HardwareRequest) -> Hardware | Unknown:
    """So many of a device that need not be here; UserError where the catalog has none of that name."""
    device = (find_cpu(name) if asked.backend == "cpu" else None) or find_written(name)
    if device is None:
        if _SIZE_ALONE.fullmatch(name):
            why = f"{name} is a memory size; it does not say how fast the device is"
            return Unknown(why, "name the device: RTX 4090")
        words = parse_device_name(name).words
        if meant := devices_meant(words):
            names = ", ".join(d.name for d in meant[:_NAMES_SHOWN])
            raise UserError(f"{name!r} matches devices of different speeds", f"choose one: {names}")
        others = [d.name for d in all_devices() if d.kind != "gpu" and words & parse_device_name(d.name).words]
        near = [d.name for d in near_devices(words)[:_NAMES_SHOWN]] or others[:_NAMES_SHOWN]
        hint = f"did you mean {' or '.join(near)}?" if near else _HINT
        raise UserError(f"unknown device {name!r}", hint)
    if device.kind == "asic":
        results = [f"{r.model} at {r.tokens_per_s:,.0f} tok/s ({r.said_by})" for r in device.results[:2]]
        published = f"; published: {' and '.join(results)}" if results else ""
        return Unknown(f"the {device.name} runs its own software, which unslow does not predict{published}", _HINT)
    rooms, notes = _rooms(name, device, count, asked.ram_bytes)
    device = next((d for d in all_devices() if rooms and d.name == rooms[0].name), device)  # of several sizes, that one
    if not device.memory_bytes_per_s:
        return Unknown(f"the memory bandwidth of the {device.name} is unknown", _HINT)
    _check_backend(device, asked)
    is_shared = bool(rooms) and all(room.unified for room in rooms)  # then the host has no memory beside it
    return Hardware(
        rooms=rooms,
        host_room=Room("host", asked.ram_bytes) if asked.ram_bytes and not is_shared else None,
        devices=(device,) * count,
        chips=(gpu_chip(device),) * len(rooms),
        processors=_named_processors(device, asked),
        host_is_assumed=not asked.ram_bandwidth,
        link_bytes_per_s=link_bytes_per_s(*_USUAL_SLOT),
        peers=has_peers(device),
        named=name,
        notes=notes,
    )


def _named_processors(device: Device, asked: HardwareRequest) -> Processors:
    """Those that are named, else a usual host's; what the user says of them counts."""
    if device.kind == "cpu" or asked.backend == "cpu":
        core = core_flops_per_s(device.clock_hz, narrow=device.narrow_cores)
        cores = int(core_count(device, float(asked.threads or 0)))
        return Processors(cores, asked.ram_bandwidth or device.memory_bytes_per_s, core_flops_per_s=core)
    usual = USUAL_PROCESSORS
    shared = _SHARE_OF_UNIFIED * device.memory_bytes_per_s if device.is_unified else usual.bytes_per_s
    return usual._replace(cores=asked.threads or usual.cores, bytes_per_s=asked.ram_bandwidth or shared)


def _rooms(name: str, device: Device, count: int, ram_bytes: int | None) -> tuple[tuple[Room, ...], tuple[str, ...]]:
    """Its memory, as often as there are such devices; a note where that is not known."""
    if device.kind == "cpu":
        return (), ()
    try:
        room = named_room(name, ram_bytes)
    except UserError:
        return (), (f"Memory size of the {device.name} not given; assuming that the model fits",)
    return (room,) * count, (room.note,) if room.note and "buffers" not in room.note else ()


def _check_backend(device: Device, asked: HardwareRequest) -> None:
    if asked.runtime == "vllm" and device.vendor == "Apple":
        raise UserError(f"vLLM does not run on the GPU of an {device.name}", "omit --runtime: llama.cpp does")
    makers = _MAKERS.get(asked.backend, ())
    if makers and device.kind != "cpu" and device.vendor not in makers:
        raise UserError(f"--backend {asked.backend} does not run on the {device.name}", "omit it")
    if asked.backend == "cpu" and device.kind == "gpu":
        hint = "name the CPU (--device 'Ryzen 9 7950X'), or keep all layers in host memory with --gpu-layers 0"
        raise UserError(f"the {device.name} is not a CPU", hint)
    if device.kind == "cpu" and (asked.backend not in ("", "cpu") or (asked.gpus or 1) > 1 or asked.gpu_layers):
        raise UserError(f"the {device.name} is not a GPU", "omit --backend, --gpus and --gpu-layers, or name a GPU")


def _not_together(names: Sequence[str]) -> Unknown:
    return Unknown(f"{', '.join(names)}: the speed of mixed devices is not predicted", "name one: --device")


def _together(every: Sequence[tuple[Device | None, Room]], hardware: Hardware) -> Hardware | None:
    """The hardware with unlike GPUs of one maker, each with memory of its own; None where it has others."""
    known = [(device, room) for device, room in every if device and device.memory_bytes_per_s]
    apart = all(device.kind == "gpu" and not device.is_unified and not room.unified for device, room in known)
    if len(known) < len(every) or not apart or len({device.vendor for device, _ in known}) > 1:
        return None
    known.sort(key=lambda pair: -pair[0].memory_bytes_per_s)
    devices, rooms = zip(*known, strict=True)
    return _with_gpus(hardware, devices, rooms)._replace(notes=(*hardware.notes, _ORDER))


def _with_gpus(hardware: Hardware, devices: Sequence[Device], rooms: Sequence[Room]) -> Hardware:
    return hardware._replace(
        rooms=tuple(rooms),
        devices=tuple(devices),
        chips=tuple(map(gpu_chip, devices)) if rooms else (),
        peers=all(map(has_peers, devices)),
    )


def _this_machine(system: System, asked: HardwareRequest, *, wants_gpu: bool, unlike: bool) -> Hardware | Unknown:
    machine = overlaid(read_machine(system)[0], Machine(memory=read_ram_bandwidth(system)))
    cpu, seen = machine.cpu, machine.memory
    processors = Processors(  # the cores that may be used, and what they read, unless the user says how fast that is
        cores=usual_threads(cpu),
        bytes_per_s=asked.ram_bandwidth or seen.read_bytes_per_s.value_or(0.0) or USUAL_PROCESSORS.bytes_per_s,
        one_core_bytes_per_s=0.0 if asked.ram_bandwidth else seen.read_one_core_bytes_per_s.value_or(0.0),
        core_flops_per_s=core_flops_of(cpu),
        logical=cpu.allowed_cpus.value_or(cpu.logical_cpus.value_or(0)),
    )
    memory = memory_of_machine(machine, asked.ram_bytes)
    gpus = computing_gpus(machine.gpus.value_or(()))
    links = []  # what each copies between host and GPU when awake
    for gpu in gpus:
        generation = gpu.pcie_generation_max.value_or(gpu.pcie_generation.value_or(0))
        lanes = gpu.pcie_width.value_or(gpu.pcie_width_max.value_or(_USUAL_LANES))
        links.append(link_bytes_per_s(generation, lanes) if generation else USUAL_LINK)
    slowest_link = min(links, default=link_bytes_per_s(*_USUAL_SLOT))
    hardware = memory._replace(processors=processors, link_bytes_per_s=slowest_link, machine=machine)
    if gpus and wants_gpu:
        return _own_gpus(gpus, asked, hardware, unlike=unlike)
    if not asked.ram_bandwidth and not machine.memory.read_bytes_per_s.value_or(0.0):
        return Unknown("this machine's memory bandwidth could not be measured", "give --ram-bandwidth 80GB/s")
    chip = processors.chip(asked.threads or processors.cores)
    read = f"{float(chip.bytes_per_s) / GB:.0f} GB/s"
    said = f"No GPU found on this machine; predicting for its CPU, with memory bandwidth {read}"
    notes = (said if wants_gpu else f"Memory bandwidth on this machine: {read}",)
    named = machine.cpu.model.value_or("this machine's CPU")
    processor = Device(
        name=named, vendor="", source="measured on this machine", memory_bytes_per_s=float(chip.bytes_per_s),
        kind="cpu", units=int(chip.threads),
    )  # fmt: skip
    return hardware._replace(rooms=(), devices=(processor,), notes=notes)


def _own_gpus(gpus: tuple[Gpu, ...], asked: HardwareRequest, hardware: Hardware, *, unlike: bool) -> Hardware | Unknown:
    found = [find_device(gpu.name.value_or(""), gpu.vram_total_bytes.value_or(0)) for gpu in gpus]
    kinds = list(dict.fromkeys(found))
    names = [gpu.name.value_or(f"GPU {gpu.index}") for gpu in gpus]
    if len(kinds) != 1:
        all_read = len(hardware.rooms) == len(gpus)
        mixed = _together(list(zip(found, hardware.rooms, strict=True)), hardware) if unlike and all_read else None
        return mixed or _not_together(names)
    device = kinds[0]
    if device is None or not device.memory_bytes_per_s:
        return Unknown(f"unknown devices: {', '.join(names)}", _HINT)
    count = min(asked.gpus or len(gpus), len(gpus))
    if asked.gpus and asked.gpus > len(gpus):
        raise UserError(f"--gpus {asked.gpus}: this machine has only {len(gpus)}", "name the device: --device NAME")
    return _with_gpus(hardware, (device,) * count, hardware.rooms[:count])


def parse_device_list(texts: tuple[str, ...]) -> list[str]:
    """The name of each device, as often as there are such devices; UserError for counts that can't be."""
    if any(len(text) > LONGEST_LIST for text in texts):
        hint = "for example: 2x RTX 3090, RTX 3060"
        raise UserError(f"the device list is longer than {LONGEST_LIST} characters", hint)
    names: list[str] = []
    for part in (part for text in texts for part in _BETWEEN.split(text.strip())):
        count, name = _count_and_name(part)
        if not name:
            raise UserError("empty device name", "separate several with a comma: RTX 3060, RTX 3090")
        if not 1 <= count <= MOST_DEVICES or len(names) + count > MOST_DEVICES:
            why = f"the number of devices must be between 1 and {MOST_DEVICES} (got {part!r})"
            raise UserError(why, "as in 2x RTX 3090")
        names += [name] * count
    return names


def _count_and_name(text: str) -> tuple[int, str]:
    before, after = _BEFORE.fullmatch(text), _AFTER.fullmatch(text)
    if before and after and before[2].isdigit():  # 2x4090, or 4090x2: nobody has thousands
        return min((int(before[1]), before[2]), (int(after[2]), after[1]))
    if _SIZE_ALONE.fullmatch(text):
        return 1, text
    if first := before or _BARE.fullmatch(text):
        return int(first[1]), first[2]
    if last := after or _LAST.fullmatch(text):
        return int(last[2]), last[1]
    return 1, text


def named_room(name: str, ram_bytes: int | None = None) -> Room:
    """The memory of a device of the catalog, or of a size; UserError where it can't be known."""
    if _SIZE_ALONE.fullmatch(name):
        size = _size(name)
        return Room(name, size, reserve_bytes=driver_reserve(size))
    written = parse_device_name(name)
    if len(written.sizes) > 1:
        raise UserError(f"{name!r} names {len(written.sizes)} memory sizes", "keep one of them")
    variants = devices_meant(written.words)
    if not variants:
        raise UserError(f"unknown device {name!r}", _hint(name, written))
    if not is_one_model(variants):
        raise UserError(f"{name!r} matches several devices", f"choose one: {_names(variants[:8])}")
    if written.sizes:
        return _of_size(variants, _size(written.sizes[0]))
    common = [d for d in variants if not _SIZE_IN_NAME.search(d.name)] or variants
    device = min(common, key=_smallest_first)
    if device.memory_bytes:
        return _room(device, note=_assumed_variant(device, variants))
    if not ram_bytes:
        raise UserError(f"the {device.name} comes in several memory sizes", f'add yours: "{device.name} 32GB"')
    return _of_size(variants, ram_bytes)


def _assumed_variant(device: Device, variants: list[Device]) -> str:
    """Which one is assumed, where there are variants of other sizes."""
    others = [d for d in variants if d.memory_bytes != device.memory_bytes]
    if not others:
        return ""
    name, sizes = _SIZE_IN_NAME.sub("", device.name), [f"{d.memory_bytes / GIB:.4g}" for d in others]
    there = f"there is also {', '.join(d.name for d in others)}"
    if all(_SIZE_IN_NAME.sub("", d.name) == name for d in others):
        article = "an" if sizes[0].startswith(("8", "11", "18")) else "a"
        there = f"there are also {' and '.join(sizes)} GB variants"
        there = f"there is also {article} {sizes[0]} GB variant" if len(sizes) == 1 else there
    return f"Assuming the {_size_text(device.memory_bytes)} {name} ({there})"


def _of_size(variants: list[Device], size: int) -> Room:
    """The variant with that memory, or a card that somebody has given another one."""
    same = [d for d in variants if any(s and is_near_size(s, size) for s in (d.memory_bytes, d.driver_bytes))]
    if same:
        return _room(min(same, key=_smallest_first))
    device = min(variants, key=_smallest_first)
    name = _SIZE_IN_NAME.sub("", device.name)
    known = sorted({d.memory_bytes for d in variants if d.memory_bytes and not d.is_unified})
    listed = " or ".join(map(_size_text, known))
    note = f"Assuming {_size_text(size)}; the catalog lists the {name} with {listed}" if known else ""
    return _room(device, f"{name} {size / GIB:.4g}GB", size, note)


def _room(device: Device, name: str = "", size: int = 0, note: str = "") -> Room:
    capacity = size or device.capacity_bytes
    if device.is_unified:
        return unified_room(name or device.name, device, capacity, note)
    notes = "; ".join(filter(None, (note, backend_note(device))))
    return Room(name or device.name, capacity, reserve_bytes=driver_reserve(capacity), note=notes)


def _smallest_first(device: Device) -> tuple[int, bool]:
    """Where two forms have the same memory, the one that drivers do not name."""
    return device.memory_bytes, "SXM" not in device.name


def _size(text: str) -> int:
    size = size_of(text)
    if not size:
        raise UserError(f"the memory of a device must be above 0 (got {text.upper()})", "omit it, or use --device cpu")
    return size


def _hint(name: str, written: WrittenName) -> str:
    if name.isdigit():
        return f"if that is its memory size: {name}GB"
    near = near_devices(written.words)
    size = near[0].memory_bytes if near and near[0].memory_bytes else _EXAMPLE_BYTES
    example = written.sizes[0].upper() if written.sizes else f"{size / GIB:.4g}GB"
    if not near:
        return f"give its memory size instead: {example}"
    return f"did you mean {_names(near)}? Its memory size alone also works: {example}"


def _names(devices: list[Device]) -> str:
    names = list(dict.fromkeys(d.name for d in devices))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _size_text(size: int) -> str:
    return f"{size / GIB:.4g} GiB"
