"""Where a model is to run: one kind of device of the catalogue, so many times, and the host beside it."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.app.fit.device_lists import SIZE_ALONE, parse_device_list
from unslow.app.fit.named_rooms import named_room
from unslow.app.fit.rooms import here
from unslow.app.predict.request import Request
from unslow.catalog.device import Device
from unslow.catalog.device_names import devices_meant, find_cpu, find_written, near_devices, parse_device_name
from unslow.catalog.devices import all_devices, find_device
from unslow.facts.errors import UserError
from unslow.facts.gpu_lists import computing
from unslow.facts.machine import Cpu, Gpu, Machine, Memory
from unslow.facts.merge import overlaid
from unslow.facts.units import GB
from unslow.facts.values import Unknown
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.probes import read_machine
from unslow.look.system import System
from unslow.think.adapt.host_question import core_flops_of
from unslow.think.fit.rooms import Room
from unslow.think.physics.chip import Chip
from unslow.think.speed.ask import USUAL_HOST
from unslow.think.speed.chips import host_chip

_HINT = "--device takes names such as RTX 4090, M3 Max or Ryzen 9 7950X"
_HERE = frozenset({"auto", "cpu", "none"})
_MAKERS = {
    "cuda": ("NVIDIA",), "rocm": ("AMD",), "hip": ("AMD",), "metal": ("Apple",), "mlx": ("Apple",), "sycl": ("Intel",),
}  # fmt: skip
_NAMES_SHOWN = 6
_ORDER = "GPUs are counted from the fastest on, as CUDA does it: `llama-server --list-devices` has the order"
_SHARE_OF_UNIFIED = 0.5
"""Of a memory that a GPU shares with processors, what these alone can draw: about so on M1 Max and Strix Halo."""


class Place(NamedTuple):
    """Devices of one kind, their memory where it is known, and the processors beside them."""

    device: Device
    gpus: int
    rooms: tuple[Room, ...]
    """Empty where nothing tells how much memory there is."""
    host: Chip
    host_room: Room | None = None
    notes: tuple[str, ...] = ()
    machine: Machine | None = None
    """This machine, where the devices are its own."""
    host_is_assumed: bool = False
    named: str = ""
    """The devices as they were asked for: a platform of the catalogue has processors of many names."""
    devices: tuple[Device, ...] = ()
    """One for each room where these are unlike, the fastest first; `device` is the first of them."""


def find_place(system: System, request: Request, *, unlike: bool = False) -> Place | Unknown:
    """The place that the flags name, or this machine; Unknown where its speed can't be told.

    With `unlike` it may have GPUs of different kinds.
    """
    names = parse_device_list(request.devices)
    kinds = list(dict.fromkeys(name.casefold() for name in names))
    if len(kinds) > 1:
        return _unlike(names, request) if unlike and not _HERE & set(kinds) else _not_together(names)
    if request.gpus and len(names) not in (1, request.gpus):
        raise UserError(f"{len(names)} devices and --gpus {request.gpus} contradict each other", "leave out --gpus")
    gpus = request.gpus or len(names)
    if kinds[0] in _HERE:
        return _this_machine(system, request, wants_gpu=kinds[0] == "auto", unlike=unlike)
    return named_place(names[0], gpus, request)


def _not_together(names: Sequence[str]) -> Unknown:
    return Unknown(f"{', '.join(names)}: the speed of unlike devices together is not predicted", "name one: --device")


def _unlike(names: Sequence[str], request: Request) -> Place | Unknown:
    """Named GPUs of different kinds in one machine."""
    places = [named_place(name, 1, request) for name in names]
    unknown = next((place for place in places if isinstance(place, Unknown)), None)
    known = [place for place in places if isinstance(place, Place) and place.rooms]
    if unknown or len(known) < len(names):
        return unknown or _not_together(names)
    notes = dict.fromkeys(note for place in known for note in place.notes)
    every = [(place.device, place.rooms[0]) for place in known]
    return _together(every, known[0]._replace(notes=tuple(notes))) or _not_together(names)


def _together(every: Sequence[tuple[Device | None, Room]], place: Place) -> Place | None:
    """The place with unlike GPUs of one maker, each with memory of its own; None where it has others."""
    known = [(device, room) for device, room in every if device and device.memory_bytes_per_s]
    apart = all(device.kind == "gpu" and not device.unified and not room.unified for device, room in known)
    if len(known) < len(every) or not apart or len({device.vendor for device, _ in known}) > 1:
        return None
    known.sort(key=lambda pair: -pair[0].memory_bytes_per_s)
    devices = tuple(device for device, _ in known)
    rooms, notes = tuple(room for _, room in known), (*place.notes, _ORDER)
    return place._replace(device=devices[0], devices=devices, gpus=len(rooms), rooms=rooms, notes=notes)


def named_place(name: str, gpus: int, request: Request) -> Place | Unknown:
    """A device that need not be here; UserError where the catalogue has none of that name."""
    device = find_cpu(name) if request.backend == "cpu" else None
    device = device or find_written(name)
    if device is None:
        if SIZE_ALONE.fullmatch(name):
            return Unknown(f"{name} tells how much a device holds, not how fast it is", "name the device: RTX 4090")
        raise _unnamed(name)
    if device.kind == "asic":
        return Unknown(f"the {device.name} runs software of its own, which is not predicted{_published(device)}", _HINT)
    rooms, notes = _rooms(name, device, gpus, request)
    device = next((d for d in all_devices() if rooms and d.name == rooms[0].name), device)  # of several sizes, that one
    if not device.memory_bytes_per_s:
        return Unknown(f"the bandwidth of the {device.name} is not known", _HINT)
    _check_backend(device, request)
    host, assumed = _host(request, None)
    if assumed and device.unified:
        host = host._replace(bytes_per_s=_SHARE_OF_UNIFIED * device.memory_bytes_per_s)
    ram = Room("host", request.ram_bytes) if request.ram_bytes else None
    return Place(device, gpus, rooms, host, ram, notes, host_is_assumed=assumed, named=name)


def _unnamed(name: str) -> UserError:
    """What is wrong with a name, and what is like it."""
    words = parse_device_name(name).words
    if devices_meant(words):
        names = ", ".join(d.name for d in devices_meant(words)[:_NAMES_SHOWN])
        return UserError(f"{name!r} could be devices of different speeds", f"say which: {names}")
    near = [d.name for d in near_devices(words)[:_NAMES_SHOWN]] or _others_with(words)
    hint = f"did you mean {' or '.join(near)}?" if near else _HINT
    return UserError(f"the catalogue has no device {name!r}", hint)


def _others_with(words: frozenset[str]) -> list[str]:
    """Processors and other chips that have one of the words."""
    return [d.name for d in all_devices() if d.kind != "gpu" and words & parse_device_name(d.name).words][:_NAMES_SHOWN]


def _check_backend(device: Device, request: Request) -> None:
    """UserError where the software does not run on such a device."""
    if request.runtime == "vllm" and device.vendor == "Apple":
        raise UserError(f"vLLM does not run on the GPU of an {device.name}", "leave out --runtime: llama.cpp does")
    makers = _MAKERS.get(request.backend, ())
    if makers and device.kind != "cpu" and device.vendor not in makers:
        raise UserError(f"--backend {request.backend} does not run on the {device.name}", "leave it out")
    if request.backend == "cpu" and device.kind == "gpu":
        hint = "name the processor (--device 'Ryzen 9 7950X'), or keep all layers on the host with --gpu-layers 0"
        raise UserError(f"the {device.name} is no processor", hint)
    if device.kind == "cpu" and (request.backend not in ("", "cpu") or (request.gpus or 1) > 1 or request.gpu_layers):
        raise UserError(f"{device.name} is no GPU", "leave out --backend, --gpus and --gpu-layers, or name a GPU")


def _published(device: Device) -> str:
    results = [f"{r.model} at {r.tokens_per_s:,.0f} tok/s ({r.said_by})" for r in device.results[:2]]
    return f"; published are {' and '.join(results)}" if results else ""


def _rooms(name: str, device: Device, gpus: int, request: Request) -> tuple[tuple[Room, ...], tuple[str, ...]]:
    """Its memory, as often as there are such devices; a note where that is not known."""
    if device.kind == "cpu":
        return (), ()
    try:
        room = named_room(name, request.ram_bytes)
    except UserError:
        return (), (f"how much memory the {device.name} has was not said: the model is taken to fit",)
    return (room,) * gpus, (room.note,) if room.note and "buffers" not in room.note else ()


def _host(request: Request, machine: Machine | None, bytes_per_s: float = 0.0) -> tuple[Chip, bool]:
    """The processors of the host, and whether they are only assumed."""
    speed = request.ram_bandwidth or bytes_per_s
    threads = request.threads or (usual_threads(machine.cpu) if machine else 0)
    assumed = not request.ram_bandwidth and not bytes_per_s
    usual = USUAL_HOST
    core = core_flops_of(machine.cpu) if machine else float(usual.flops_per_s) / float(usual.threads)
    return host_chip(speed or float(usual.bytes_per_s), float(threads or usual.threads), core), assumed


def usual_threads(cpu: Cpu) -> int:
    """One for each physical core that may be used, as llama.cpp does it."""
    cores = cpu.physical_cores.value_or(cpu.logical_cpus.value_or(1))
    return max(1, min(cores, cpu.allowed_cpus.value_or(cores), int(cpu.quota_cpus.value_or(cores)) or 1))


def _read_by(threads: int, memory: Memory) -> float:
    """What so many threads read of the memory: each no more than one core was measured to; 0 where nobody measured."""
    every = memory.read_bytes_per_s.value_or(0.0)
    return min(every, threads * memory.read_one_core_bytes_per_s.value_or(every))


def _this_machine(system: System, request: Request, *, wants_gpu: bool, unlike: bool) -> Place | Unknown:
    machine = overlaid(read_machine(system)[0], Machine(memory=read_ram_bandwidth(system)))
    host, assumed = _host(request, machine, _read_by(request.threads or usual_threads(machine.cpu), machine.memory))
    rooms, ram = here(machine, request.ram_bytes)
    gpus = computing(machine.gpus.value_or(())) if wants_gpu else ()
    if not gpus:
        device = _processor(machine.cpu, host)
        if assumed:
            return Unknown("the speed of this machine's memory could not be measured", "give --ram-bandwidth 80GB/s")
        said = f"no GPU was found on this machine: its processors are predicted, with memory read at {_gb(host)}"
        notes = (said,) if wants_gpu else (f"memory is read at {_gb(host)} here",)
        return Place(device, 1, (), host, ram, notes, machine)
    place = Place(_processor(machine.cpu, host), 1, tuple(rooms), host, ram, (), machine)
    return _own_gpus(gpus, request, place, unlike=unlike)


def _own_gpus(gpus: tuple[Gpu, ...], request: Request, place: Place, *, unlike: bool) -> Place | Unknown:
    found = [find_device(gpu.name.value_or(""), gpu.vram_total_bytes.value_or(0)) for gpu in gpus]
    devices = list(dict.fromkeys(found))
    names = [gpu.name.value_or(f"GPU {gpu.index}") for gpu in gpus]
    if len(devices) != 1:
        all_read = len(place.rooms) == len(gpus)
        mixed = _together(list(zip(found, place.rooms, strict=True)), place) if unlike and all_read else None
        return mixed or _not_together(names)
    device = devices[0]
    if device is None or not device.memory_bytes_per_s:
        return Unknown(f"the catalogue has no {', '.join(names)}", _HINT)
    count = min(request.gpus or len(gpus), len(gpus))
    if request.gpus and request.gpus > len(gpus):
        raise UserError(f"--gpus {request.gpus}: this machine has {len(gpus)}", "name the device: --device NAME")
    return place._replace(device=device, gpus=count, rooms=place.rooms[:count])


def _processor(cpu: Cpu, host: Chip) -> Device:
    """This machine's processors as a device: as fast as their memory was measured."""
    return Device(
        name=cpu.model.value_or("this machine's processors"), vendor="", source="measured on this machine",
        memory_bytes_per_s=float(host.bytes_per_s), kind="cpu", units=int(host.threads),
    )  # fmt: skip


def _gb(chip: Chip) -> str:
    return f"{float(chip.bytes_per_s) / GB:.0f} GB/s"
