"""How fast the memories of a case are read, and by which backend."""

from unslow.catalog.backends import backends
from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.units import GB
from unslow.facts.values import Known, MissingFactError, Origin, Unknown, not_found
from unslow.think.adapt.shape import missing
from unslow.think.adapt.vram import buffers_of, gpus_of, seen_gpus
from unslow.think.physics.decode import Backend, Side
from unslow.think.physics.interval import SPREAD

_LEAST_CPUS = 0.01
UNVERIFIED_SPREAD = 1.3  # of a catalogue entry that nobody has checked
SLOWEST_BYTES_PER_S = 1e8
"""No memory that runs a model is slower; a figure below it is a mistake."""
CORE_TURNS_BYTES_PER_S = 12 * GB
"""What a core can turn into products at most, before the efficiency: 8 GB/s of Q4_K on one 2.8 GHz core (AVX2)."""
CORE_READ_BYTES_PER_S = 5.5 * GB
HOST_READ_CAP_BYTES_PER_S = 88 * GB
"""A core on quantised blocks, where nobody measured the memory: 13.3 tok/s of 4.6 GB on 16 cores (H200 host)."""


def cores_of(case: Case) -> float:
    """Cores that can compute for the runtime at once: physical ones, within its cpuset and quota."""
    cores = case.machine.cpu.physical_cores
    if isinstance(cores, Unknown) or not cores.value:
        raise MissingFactError(
            cores if isinstance(cores, Unknown) else not_found("no cores"), "machine.cpu.physical_cores"
        )
    return min(cores.value, cpus_of(case))


def cpus_of(case: Case) -> float:
    """Threads that can run at once: logical CPUs, within the cpuset and the quota."""
    cpu = case.machine.cpu
    known = [f.value for f in (cpu.allowed_cpus, cpu.quota_cpus) if isinstance(f, Known) and f.value > 0]
    logical = cpu.logical_cpus.value_or(0) or cpu.physical_cores.value_or(0) * cpu.threads_per_core.value_or(1)
    return max(_LEAST_CPUS, min([logical, *known] if logical else known, default=1))


def device_bandwidth(gpu: Gpu) -> tuple[float, float]:
    """Bytes per second of a GPU's memory, by its bus or the catalogue, and how much more than usual it may be off."""
    # Every memory of a GPU moves two bits per pin and reported clock (HBM, GDDR6, GDDR6X alike).
    by_bus = gpu.memory_clock_max_hz.value_or(0) * 2 * gpu.memory_bus_bits.value_or(0) / 8
    if by_bus >= SLOWEST_BYTES_PER_S:
        return by_bus, 1.0
    device = find_device(gpu.name.need(), int(gpu.vram_total_bytes.value_or(0)))
    if device is None:
        raise missing(f"the memory bandwidth of {gpu.name.need()}: not in the catalogue")
    return device.memory_bytes_per_s, 1.0 if device.verified else UNVERIFIED_SPREAD


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


def family_of(gpu: Gpu) -> str:
    """The architecture of a GPU: by what its driver says of it, else by the catalogue."""
    capability = gpu.compute_capability.value_or("")
    for prefix, family in _FAMILY_BY_CAPABILITY.items():
        if capability.startswith(prefix):
            return family
    device = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    return device.family if device else ""


_BACKEND_BY_PREFIX = {
    "CUDA": "cuda",
    "ROCm": "rocm",
    "HIP": "rocm",
    "Vulkan": "vulkan",
    "MTL": "metal",
    "Metal": "metal",
}


def backend_name(case: Case) -> str:
    """Which of the learned backends computes on the GPU."""
    names = [b.device for b in case.runtime.buffers.value_or([]) if b.on_gpu]
    names += [d.name for d in seen_gpus(case)]
    found = (b for n in names for prefix, b in _BACKEND_BY_PREFIX.items() if n.startswith(prefix))
    vendor = next((g.vendor.value_or("") for g in gpus_of(case)), "")
    return next(found, {"AMD": "rocm", "Apple": "metal"}.get(vendor, "cuda"))


def shares_of(case: Case, count: int) -> list[float]:
    """What part of the weights each GPU holds: as allocated, where the buffers are as many, else equal parts."""
    held = [float(b.bytes) for b in buffers_of(case, "model", on_gpu=True)]
    total = sum(held)
    return [part / total for part in held] if len(held) == count and total else [1 / count] * count


def host_side(case: Case, read_bytes: float, layers: float) -> Side | None:
    """The CPU and its memory."""
    if read_bytes <= 0:
        return None
    cpu = backends()["cpu"]
    rate, spread = _host_bandwidth(case)
    backend = Backend(cpu.efficiency, cpu.layer_overhead_s, cpu.spread)
    return Side(read_bytes, rate, layers, backend, spread * cpu.spread)


def _host_bandwidth(case: Case) -> tuple[float, float]:
    measured = case.machine.memory.read_bytes_per_s
    cores = cores_of(case)
    threads = min(case.runtime.threads.value_or(0) or cores, cores)
    if isinstance(measured, Known) and measured.value >= SLOWEST_BYTES_PER_S:
        one = max(SLOWEST_BYTES_PER_S, case.machine.memory.read_one_core_bytes_per_s.value_or(measured.value))
        return min(measured.value, one * threads, CORE_TURNS_BYTES_PER_S * threads), SPREAD[measured.origin]
    return min(CORE_READ_BYTES_PER_S * threads, HOST_READ_CAP_BYTES_PER_S), SPREAD[Origin.ESTIMATED]
