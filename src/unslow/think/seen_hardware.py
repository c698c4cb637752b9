"""The hardware of a case as a plan and the sliders take it: what a runtime would find if it were started anew.

Its memory is what is free and what it holds itself; its speed is what its processors and GPUs were seen to do.
"""

from collections.abc import Sequence

import msgspec

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin, estimated, reported
from unslow.think.adapt.bandwidth import CORE_FED_BYTES_PER_S, SLOWEST_BYTES_PER_S, cpus_of, own_cpus, shares_of
from unslow.think.adapt.calibrated import calibration_of
from unslow.think.adapt.gpu_question import build_year, chip_of_gpu, gpu_setting
from unslow.think.adapt.host_question import core_flops_of, host_setting
from unslow.think.adapt.host_weights import host_link_bytes_per_s
from unslow.think.adapt.vram import gpus_used, own_bytes_on, runtime_sees_gpu, seen_gpus
from unslow.think.hardware import CUDA_CONTEXT_BYTES, Hardware, Processors, Room, may_pin, memory_of_machine
from unslow.think.physics.chip import Chip
from unslow.think.physics.placement import Placement
from unslow.think.speed.chips import has_peers
from unslow.think.speed.question import USUAL_LINK

_NOTHING = Placement(0, output_on_gpu=False)
_MAPPED = "Mapped"
"""In the names of buffers that are pages of the model's file, which the system counts as available."""


def gpus_at_work(case: Case) -> tuple[Gpu, ...]:
    """The GPUs that it computes on; none where it has none to compute on."""
    return () if runtime_sees_gpu(case) is False else tuple(_sized(case, gpu) for gpu in gpus_used(case))


def seen_memory(case: Case, gpus: Sequence[Gpu]) -> Hardware:
    """The memory of these GPUs and of the host, with what the runtime's own process would give back."""
    machine = msgspec.structs.replace(case.machine, gpus=reported(tuple(gpus), "the runtime's own"))
    memory = memory_of_machine(machine)
    if len(memory.rooms) != len(gpus):
        return memory._replace(rooms=())
    pairs = zip(memory.rooms, given_back(case, gpus), strict=True)
    rooms = tuple(room._replace(others_bytes=max(0, room.others_bytes - int(own))) for room, own in pairs)
    unified = bool(rooms) and all(room.unified for room in rooms)
    found = memory._replace(rooms=rooms, host_room=None if unified else _host(case, memory.host_room))
    return _as_unified(case, gpus, found)


def _as_unified(case: Case, gpus: Sequence[Gpu], memory: Hardware) -> Hardware:
    """The memory of a Mac as the one that it is: drivers tell what a GPU may have of it as if it were apart."""
    rooms, host = memory.rooms, memory.host_room
    apple = len(gpus) == 1 and gpus[0].name.value_or("").startswith("Apple")
    if not apple or host is None or any(room.unified for room in rooms):
        return memory
    own = 0 if isinstance(case.runtime.resident_bytes, Known) else int(given_back(case, gpus)[0])
    limit, others = rooms[0].capacity_bytes, max(0, host.others_bytes - own)
    beyond = max(0, host.capacity_bytes - limit - others)  # what others hold need not be of the GPU's part
    room = Room(rooms[0].name, host.capacity_bytes, others, beyond, unified=True, context_bytes=0)
    return memory._replace(rooms=(room,), host_room=None)


def _sized(case: Case, gpu: Gpu) -> Gpu:
    """The GPU with its size, where only the runtime or its name tells that, and what was free before the load."""
    seen = seen_gpus(case)
    device = seen[0] if len(seen) == 1 == len(gpus_used(case)) else None
    if not isinstance(gpu.vram_total_bytes, Known) and device and isinstance(device.total_bytes, Known):
        gpu = msgspec.structs.replace(gpu, vram_total_bytes=device.total_bytes)
    known = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    if not isinstance(gpu.vram_total_bytes, Known) and known and known.capacity_bytes and not known.unified:
        gpu = msgspec.structs.replace(gpu, vram_total_bytes=estimated(known.capacity_bytes, known.source))
    failed = case.runtime.state.value_or("") == "failed"  # what was measured since may be its own, before it ended
    wanted = failed or not isinstance(gpu.vram_free_bytes, Known)
    if wanted and device and isinstance(device.free_bytes, Known):
        gpu = msgspec.structs.replace(gpu, vram_free_bytes=device.free_bytes)
    return gpu


def given_back(case: Case, gpus: Sequence[Gpu]) -> list[float]:
    """What its process holds of each GPU: as the driver counts, else as it says that it allocated."""
    if not gpus or case.runtime.state.value_or("loaded") == "failed":
        return [0.0] * len(gpus)
    counted = [own_bytes_on(case, gpu) for gpu in gpus]
    if any(held is not None for held in counted):
        return [held or 0.0 for held in counted]
    held = sum(b.bytes for b in case.runtime.buffers.value_or([]) if b.on_gpu)
    held = held or int(case.runtime.size_vram_bytes.value_or(0))
    return [held * share + CUDA_CONTEXT_BYTES for share in shares_of(case, len(gpus))] if held else [0.0] * len(gpus)


def _host(case: Case, host: Room | None) -> Room | None:
    """The host's memory within the limit of the runtime's own group, and with what only it holds."""
    if host is None:
        return None
    capacity = int(min(host.capacity_bytes, case.runtime.memory_limit_bytes.value_or(host.capacity_bytes)))
    free = min(capacity, max(host.usable_bytes + _own_resident(case), int(case.runtime.resident_bytes.value_or(0))))
    return host._replace(capacity_bytes=capacity, others_bytes=capacity - free, reserve_bytes=0)


def _own_resident(case: Case) -> int:
    """Memory of its process that is no page of a file."""
    resident = int(case.runtime.resident_bytes.value_or(0))
    if case.runtime.state.value_or("loaded") == "failed":
        return 0
    mapped = sum(b.bytes for b in case.runtime.buffers.value_or([]) if _MAPPED in b.device)
    if not mapped and "mmap" in case.runtime.load_mode.value_or("mmap"):
        mapped = int(case.model.weights_bytes.value_or(resident))
    return max(0, resident - mapped)


def seen_hardware(case: Case, gpus: Sequence[Gpu], memory: Hardware) -> Hardware:
    """That memory with its speed; MissingFactError where nobody knows how fast a GPU is."""
    beside, host = host_setting(case, _NOTHING), memory.host_room
    slower = _slower(case) if gpus else 1.0
    return memory._replace(
        chips=tuple(_scaled(chip_of_gpu(gpu)[0], slower) for gpu in gpus),
        setting=gpu_setting(case, gpus[0]) if gpus else beside,
        processors=seen_processors(case),
        host_setting=beside,
        link_bytes_per_s=host_link_bytes_per_s(case) or USUAL_LINK,
        pinned=bool(gpus) and may_pin(gpu_setting(case, gpus[0]).backend, host, case.model.weights_bytes.value_or(0)),
        year=build_year(case),
        peers=all(_has_peers(gpu) for gpu in gpus),
    )


def _slower(case: Case) -> float:
    """By how much a server here was slower than expected when it was calibrated."""
    known = calibration_of(case) if case.calibrations else None
    return known.scale.factor if known and known.scale and known.backend == "gpu" else 1.0


def _scaled(chip: Chip, slower: float) -> Chip:
    return chip._replace(
        bytes_per_s=chip.bytes_per_s / slower,
        flops_per_s=chip.flops_per_s / slower,
        matrix_flops_per_s=chip.matrix_flops_per_s / slower,
    )


def _has_peers(gpu: Gpu) -> bool:
    known = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    return known is None or has_peers(known)


def seen_processors(case: Case) -> Processors:
    """The cores that its process may use, fast ones alone where there are two kinds, and what they read."""
    cpu, memory = case.machine.cpu, case.machine.memory
    physical = cpu.physical_cores.value_or(0) or cpu.logical_cpus.value_or(1)
    fast = cpu.performance_cores.value_or(0) or physical
    cores = max(1, int(min(fast, physical, cpus_of(case) if _is_counted(case) else fast)))
    measured = memory.read_bytes_per_s.value_or(0.0)
    known = measured if measured >= SLOWEST_BYTES_PER_S else CORE_FED_BYTES_PER_S * physical
    return Processors(
        cores=cores,
        bytes_per_s=known,
        one_core_bytes_per_s=memory.read_one_core_bytes_per_s.value_or(0.0) if measured else 0.0,
        core_flops_per_s=core_flops_of(cpu),
        logical=int(own_cpus(case)) if _is_counted(case) else 0,
    )


def _is_counted(case: Case) -> bool:
    cpu = case.machine.cpu
    return bool(cpu.logical_cpus.value_or(0) or cpu.physical_cores.value_or(0))


def is_assumed(case: Case) -> bool:
    """Whether nobody measured how fast the host's memory is read."""
    memory = case.machine.memory.read_bytes_per_s
    return not isinstance(memory, Known) or memory.origin is Origin.ESTIMATED
