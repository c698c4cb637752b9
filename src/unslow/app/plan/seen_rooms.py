"""The memory that a runtime would find if it were started anew: what is free, and what it holds itself."""

from collections.abc import Sequence

import msgspec

from unslow.app.fit.rooms import here
from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, estimated, reported
from unslow.think.adapt.bandwidth import shares_of
from unslow.think.adapt.vram import gpus_used, own_bytes_on, runtime_sees_gpu, seen_gpus
from unslow.think.fit.rooms import CUDA_CONTEXT_BYTES, Room

_MAPPED = "Mapped"
"""In the names of buffers that are pages of the model's file, which the system counts as available."""


def gpus_at_work(case: Case) -> tuple[Gpu, ...]:
    """The GPUs that it computes on; none where it has none to compute on."""
    return () if runtime_sees_gpu(case) is False else tuple(_sized(case, gpu) for gpu in gpus_used(case))


def rooms_of(case: Case, gpus: Sequence[Gpu]) -> tuple[tuple[Room, ...], Room | None]:
    """The memory of these GPUs and of the host, with what the runtime's own process would give back."""
    machine = msgspec.structs.replace(case.machine, gpus=reported(tuple(gpus), "the runtime's own"))
    rooms, host = here(machine)
    if len(rooms) != len(gpus):
        return (), host
    back = given_back(case, gpus)
    unified = bool(rooms) and all(room.unified for room in rooms)
    freed = tuple(
        room._replace(others_bytes=max(0, room.others_bytes - int(own))) for room, own in zip(rooms, back, strict=True)
    )
    return freed, None if unified else _host(case, host)


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
