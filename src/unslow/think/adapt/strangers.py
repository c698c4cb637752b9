"""What other programs hold of the GPUs that a runtime uses, also where the driver tells no sizes."""

from typing import NamedTuple

from unslow.facts.machine import GpuProcess
from unslow.facts.runtime import SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.facts.values import Known, Unknown
from unslow.think.adapt.gpu_match import candidates
from unslow.think.adapt.placement import RUNTIME_CONTEXT_BYTES
from unslow.think.adapt.shape import missing
from unslow.think.adapt.vram import NOBODYS_BYTES, gpus_of, gpus_used, own_vram_bytes


def held_by_strangers(case: Case, others: list[GpuProcess], how_to_get: str) -> float:
    """What they hold: as listed, else what is in use and neither the runtime's nor the driver's."""
    sizes = [p.vram_bytes for p in others]
    listed = float(sum(size.value_or(0) for size in sizes))
    if all(isinstance(size, Known) for size in sizes):
        return listed
    own, gpus = _own_bytes(case), gpus_used(case)
    if own is None or not all(isinstance(gpu.vram_used_bytes, Known) for gpu in gpus):
        raise missing("how much GPU memory each process holds", how_to_get)
    used = sum(gpu.vram_used_bytes.need() for gpu in gpus)
    return max(listed, used - own - NOBODYS_BYTES * len(gpus))


def _own_bytes(case: Case) -> float | None:
    """By the driver's count, else by the runtime's own buffers."""
    counted, buffers = own_vram_bytes(case), case.runtime.buffers
    if counted is not None or not isinstance(buffers, Known):
        return counted
    return RUNTIME_CONTEXT_BYTES + sum(b.bytes for b in buffers.value if b.on_gpu)


def driver_lends(case: Case) -> bool:
    """Whether what counts as on the GPU may lie in system memory: it may move, or Windows lent gigabytes."""
    lent = any(gpu.shared_used_bytes.value_or(0) >= GIB for gpu in gpus_of(case))
    return lent or "GGML_CUDA_ENABLE_UNIFIED_MEMORY" in case.runtime.environment.value_or({})


class Memory(NamedTuple):
    """All that a GPU has, and what was free of it before the load."""

    total: float
    free: float

    @property
    def gone(self) -> float:
        """What somebody else held."""
        return self.total - self.free


def memory_before(case: Case, device: SeenDevice) -> Memory | None:
    """As the runtime saw it, or with the total of the one kind of card that it can be; None where either is missing.

    Where the driver lists who holds memory on the card, that list decides, and not what is gone.
    """
    is_cpu = "cpu" in (device.library, device.name.lower())
    cards = [gpu for gpu in candidates(device, gpus_of(case)) if isinstance(gpu.processes, Unknown)]
    totals = {gpu.vram_total_bytes.value_or(0) for gpu in cards}
    total = device.total_bytes.value_or(totals.pop() if len(totals) == 1 else 0)
    if not total or is_cpu or device.integrated.value_or(default=False) or not isinstance(device.free_bytes, Known):
        return None
    return Memory(float(total), float(device.free_bytes.value))
