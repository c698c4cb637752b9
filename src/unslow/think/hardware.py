"""The hardware that a model runs on: GPUs with their memory and speed, and the host beside them.

`fit`, `predict`, `plan`, the sliders of the page and `buy` all take this type; `unslow.commands._hardware` finds it
by the words of a user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from unslow.catalog.device_names import devices_meant
from unslow.catalog.devices import Device, parse_device_name
from unslow.catalog.hardware_families import unified_memory
from unslow.facts.merge import computing_gpus
from unslow.facts.values import GIB, MIB, Known
from unslow.think.physics.chip import Chip, SpeedSetting
from unslow.think.speed import question

if TYPE_CHECKING:
    from unslow.facts.machine import Cpu, Gpu, Machine, Memory
    from unslow.think.physics.terms import Number

CUDA_CONTEXT_BYTES = 527 * MIB
"""What a process holds on an NVIDIA GPU before it has any buffer, as measured on an H200 with CUDA 13."""
DRIVER_SHARE = 0.015  # what a driver keeps of a card's memory, as consumer cards report it (memory.reserved)
DRIVER_MOST_BYTES = 615 * MIB  # as an H200 reports it
NEWEST_YEAR = 2026.8  # of the newest builds that were measured
_PINS = ("cuda", "rocm", "vulkan")
"""Backends that give llama.cpp memory of the host from which GPUs copy directly, where a file is not mapped."""
_SPARE_RAM = 0.85  # Of the host's memory, for a model that is not mapped: it cannot be dropped like a mapped file
_RATES = ("bytes_per_s", "flops_per_s", "matrix_flops_per_s")


class Room(NamedTuple):
    """A device's memory, or the host's."""

    name: str
    capacity_bytes: int
    others_bytes: int = 0  # In use by other processes
    reserve_bytes: int = 0  # What the driver keeps, or what the system does not give a GPU of a memory that both share
    unified: bool = False  # Whether it is the host's memory too, which then has no room of its own
    context_bytes: int = CUDA_CONTEXT_BYTES  # What a runtime holds there before it has any buffer
    note: str = ""  # What was assumed about it; empty where there is nothing to say

    @property
    def usable_bytes(self) -> int:
        """What is left for a process."""
        return max(0, self.capacity_bytes - self.others_bytes - self.reserve_bytes)

    @property
    def free_bytes(self) -> int:
        """What is left for buffers, after the runtime's own context."""
        return max(0, self.usable_bytes - self.context_bytes)


class Processors(NamedTuple):
    """The host's cores and its memory."""

    cores: int  # Physical ones that may be used
    bytes_per_s: float  # What all cores together read
    one_core_bytes_per_s: float = 0.0  # What one core reads; 0 where not measured: then any number reads as much as all
    core_flops_per_s: float = question.CORE_FLOPS_PER_S
    logical: int = 0  # With their siblings, which share a core's units; 0 where not counted

    def chip(self, threads: int) -> Chip:
        """So many threads of it: siblings add nothing to arithmetic, and each core reads no more than it can."""
        cores = max(1, min(threads, self.cores))
        each = self.one_core_bytes_per_s or self.bytes_per_s
        return question.host_chip(min(self.bytes_per_s, cores * each), float(cores), self.core_flops_per_s)


USUAL_PROCESSORS = Processors(
    int(float(question.USUAL_HOST.threads)),
    float(question.USUAL_HOST.bytes_per_s),
    core_flops_per_s=float(question.USUAL_HOST.flops_per_s) / float(question.USUAL_HOST.threads),
)
"""Of a host of which nothing is known."""


class Hardware(NamedTuple):
    """GPUs, none of them possibly, and the host beside them."""

    rooms: tuple[Room, ...] = ()  # The memory of each GPU; empty without one, or where its size is unknown
    host_room: Room | None = None  # None where the host's memory size is unknown, or where it is the GPUs' own
    devices: tuple[Device, ...] = ()
    """What the catalog knows of each GPU, the fastest first, or of the processors where they compute alone; empty
    where speeds were not asked for."""
    chips: tuple[Chip, ...] = ()  # Each GPU as the physics takes it, one per room; empty where speeds are not asked
    setting: SpeedSetting = SpeedSetting("cpu")
    """Of the GPUs as what was learned is looked up; of the host where there are none."""
    processors: Processors = USUAL_PROCESSORS
    host_setting: SpeedSetting = SpeedSetting("cpu")
    host_is_assumed: bool = False  # Whether host memory bandwidth is assumed
    link_bytes_per_s: float = question.USUAL_LINK  # Between the host and the slowest GPU; 0 where unknown
    linked: bool = False  # Whether the GPUs have links of their own (NVLink)
    peers: bool = True  # Whether the GPUs read each other's memory directly
    pinned: bool = False  # Whether weights on the host lie where a GPU copies from directly, not in a mapped file
    year: float = NEWEST_YEAR  # Of the build
    machine: Machine | None = None  # This machine, where the devices are its own
    named: str = ""  # The devices as they were asked for: a platform of the catalog has processors of many names
    notes: tuple[str, ...] = ()  # What was assumed about its speed

    @property
    def device(self) -> Device:
        """What the catalog knows of the fastest device, or of all where they are alike."""
        return self.devices[0]

    @property
    def device_count(self) -> int:
        """How many devices there are: GPUs, or one of processors."""
        return len(self.devices)

    @property
    def usable_bytes(self) -> int:
        """What all memories together have left for a process."""
        return sum(room.usable_bytes for room in (*self.rooms, self.host_room) if room)

    @property
    def is_unified(self) -> bool:
        """Whether the host's memory is the GPUs'."""
        return self.host_room is None and any(room.unified for room in self.rooms)

    @property
    def memory_notes(self) -> tuple[str, ...]:
        """What was assumed about the memories, each thing once."""
        return tuple(dict.fromkeys(room.note for room in (*self.rooms, self.host_room) if room and room.note))

    @property
    def free_bytes(self) -> tuple[int, ...]:
        """What each GPU has for buffers, after the runtime's own context."""
        return tuple(room.free_bytes for room in self.rooms)

    @property
    def speeds(self) -> tuple[float, ...]:
        """What each GPU reads in a second; empty where all are alike."""
        every = tuple(float(chip.bytes_per_s) for chip in self.chips)
        return every if len(set(every)) > 1 else ()

    @property
    def is_plain(self) -> bool:
        """Whether there is one GPU at most, and it reads faster than the host: then the search is a proof."""
        # Beside a slow GPU more on the host may be faster, and layers are divided among several by rule.
        quick = all(float(chip.bytes_per_s) >= self.processors.bytes_per_s for chip in self.chips)
        return quick and len(self.chips) <= 1

    def without_gpus(self) -> Hardware:
        """The host alone; of a memory that a GPU shares, all that others leave."""
        shared = next((room for room in self.rooms if room.unified), None)
        host = self.host_room or (shared and Room("host", shared.capacity_bytes, others_bytes=shared.others_bytes))
        return self._replace(rooms=(), chips=(), setting=self.host_setting, host_room=host)

    def holding(self, first_bytes: int) -> Hardware:
        """The same with so much more of the first GPU's memory in use by others."""
        if not self.rooms:
            return self
        first, *others = self.rooms
        return self._replace(rooms=(first._replace(others_bytes=first.others_bytes + first_bytes), *others))

    def taking_turns(self, splits: Sequence[tuple[int, ...]]) -> tuple[Chip, Number]:
        """One chip for GPUs that take turns, and how many they are; arrays where there is more than one split."""
        if len(self.chips) == 1:
            return self.chips[0], 1.0
        counts = [float(sum(1 for layers in split if layers)) for split in splits]
        chips = []
        for split in splits:  # each has its share of the layers: their times add up
            whole = sum(split)
            parts = [(layers / whole, chip) for layers, chip in zip(split, self.chips, strict=True) if layers]
            rates = {name: 1 / sum(part / float(getattr(chip, name)) for part, chip in parts) for name in _RATES}
            chips.append(self.chips[0]._replace(**rates))
        if len(splits) == 1:
            return chips[0], counts[0]
        from unslow.think.speed.arrays import stack_values  # noqa: PLC0415 (numpy takes long to load)

        return stack_values(chips), stack_values(counts)


def may_pin(backend: str, host: Room | None, weights_bytes: float) -> bool:
    """Whether the host has room for all weights in memory that GPUs copy from directly."""
    return backend in _PINS and host is not None and 0 < weights_bytes <= _SPARE_RAM * host.usable_bytes


def driver_reserve(capacity_bytes: int) -> int:
    """An estimate of what the driver keeps, for a card that is not here to be asked."""
    return min(int(capacity_bytes * DRIVER_SHARE), DRIVER_MOST_BYTES)


def memory_of_machine(machine: Machine, ram_bytes: int | None = None) -> Hardware:
    """The memory of a machine: its GPUs', and what it can give of its RAM, which may be the same."""
    every = [(gpu, room_of_gpu(gpu, machine.memory)) for gpu in computing_gpus(machine.gpus.value_or(()))]
    host = Room("host", ram_bytes) if ram_bytes else host_room_of(machine.memory)
    hardware = Hardware(tuple(room for _, room in every if room), host)
    unread = [gpu.name.value_or(f"GPU {gpu.index}") for gpu, room in every if room is None]
    return with_memory_note(hardware, f"the memory of {', '.join(unread)} could not be read") if unread else hardware


def with_memory_note(hardware: Hardware, note: str) -> Hardware:
    """The same with a note on the host, or on the first device where the host is not known."""
    if hardware.host_room is not None:
        return hardware._replace(host_room=hardware.host_room._replace(note=note))
    first = tuple(room._replace(note="; ".join(filter(None, (note, room.note)))) for room in hardware.rooms[:1])
    return hardware._replace(rooms=(*first, *hardware.rooms[1:]))


def host_room_of(memory: Memory) -> Room | None:
    """The RAM, within the limit that is set for this process."""
    if not isinstance(memory.total_bytes, Known):
        return None
    total = memory.total_bytes.value
    capacity = min(total, memory.limit_bytes.value_or(total))
    free = min(capacity, memory.available_bytes.value_or(total))
    return Room("host", capacity, others_bytes=capacity - free)


def room_of_gpu(gpu: Gpu, memory: Memory) -> Room | None:
    """A GPU's own memory, or the machine's where it has none of its own; None where neither was read."""
    name = gpu.name.value_or("GPU").removeprefix("NVIDIA ").removeprefix("GeForce ")
    if not isinstance(gpu.vram_total_bytes, Known):
        # Drivers report no memory for a GPU that uses the host's; the catalog knows which ones do
        device = next((d for d in devices_meant(parse_device_name(name).words) if d.is_unified), None)
        host = host_room_of(memory)
        if device is None or host is None:
            return None
        return unified_room(name, device, host.capacity_bytes)._replace(others_bytes=host.others_bytes)
    total = gpu.vram_total_bytes.value
    driver = gpu.vram_reserved_bytes.value_or(driver_reserve(total))
    free = gpu.vram_free_bytes.value_or(total - driver)
    return Room(name, total, max(0, total - driver - free), driver)


def unified_room(name: str, device: Device, size: int, note: str = "") -> Room:
    """A memory that the GPU shares with the host."""
    kind = unified_memory(device.vendor)
    for_gpu = kind.gpu_bytes(size)
    said = kind.note.format(gpu=f"{for_gpu / GIB:.4g} GiB", total=f"{size / GIB:.4g} GiB")
    kept = max(size - for_gpu, driver_reserve(size))
    context = 0 if device.vendor == "Apple" else CUDA_CONTEXT_BYTES
    notes = "; ".join(filter(None, (note, said, backend_note(device))))
    return Room(name, size, reserve_bytes=kept, unified=True, context_bytes=context, note=notes)


def backend_note(device: Device) -> str:
    """That buffers were only compared with CUDA's."""
    amd = {"rocm": "ROCm, the usual backend there,", "vulkan": "Vulkan, the usual backend there,"}
    usual = {"Apple": "Metal", "AMD": amd.get(question.usual_backend(device), ""), "Intel": "SYCL or Vulkan"}
    backend = usual.get(device.vendor, "")
    return f"compute buffers are counted as for CUDA; {backend} was not measured" if backend else ""


def usual_threads(cpu: Cpu) -> int:
    """One for each physical core that may be used, as llama.cpp does it."""
    cores = cpu.physical_cores.value_or(cpu.logical_cpus.value_or(1))
    return max(1, min(cores, cpu.allowed_cpus.value_or(cores), int(cpu.quota_cpus.value_or(cores)) or 1))


def threads_by_itself(machine: Machine | None) -> int:
    """How many llama.cpp uses by default: one for each physical core, whatever limits are set."""
    if machine is None:
        return 0
    cpu = machine.cpu
    return cpu.performance_cores.value_or(0) or cpu.physical_cores.value_or(cpu.logical_cpus.value_or(0))
