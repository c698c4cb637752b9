"""How fast the memories of a case are read, and by which backend."""

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.units import GB
from unslow.facts.values import Known, MissingFactError, Origin, Unknown, not_found
from unslow.think.adapt.cpu_limits import allowed_of, limits_of
from unslow.think.adapt.remembered import once
from unslow.think.adapt.shape import missing
from unslow.think.adapt.vram import buffers_of, gpus_of, gpus_used, seen_gpus
from unslow.think.physics.interval import SPREAD

_LEAST_CPUS = 0.01
UNVERIFIED_SPREAD = 1.3  # of a catalogue entry that nobody has checked
SLOWEST_BYTES_PER_S = 1e8
"""No memory that runs a model is slower; a figure below it is a mistake."""
CORE_FED_BYTES_PER_S = 8 * GB
"""Where nobody measured the memory: a machine has about as many cores as it can feed, 64 for 460 GB/s and 8 for 60."""
CORE_READ_BYTES_PER_S = 12 * GB
"""What one core reads at most, there: 11 to 24 GB/s on servers and desktops of the last ten years."""


def cores_of(case: Case) -> float:
    """Cores that can compute for the runtime at once: physical ones, within its cpuset and quota."""
    return min(_physical_cores(case), cpus_of(case))


def _physical_cores(case: Case) -> float:
    cores = case.machine.cpu.physical_cores
    if isinstance(cores, Unknown) or not cores.value:
        raise MissingFactError(
            cores if isinstance(cores, Unknown) else not_found("no cores"), "machine.cpu.physical_cores"
        )
    return float(cores.value)


def cpus_of(case: Case) -> float:
    """Threads that can run at once: logical CPUs, within the cpuset and the quota."""
    cpu = case.machine.cpu
    known = limits_of(case).values()
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


@once
def backend_name(case: Case) -> str:
    """Which of the learned backends computes on the GPU."""
    names = [b.device for b in case.runtime.buffers.value_or([]) if b.on_gpu]
    names += [d.name for d in seen_gpus(case)]
    found = (b for n in names for prefix, b in _BACKEND_BY_PREFIX.items() if n.startswith(prefix))
    vendor = next((g.vendor.value_or("") for g in gpus_of(case)), "")
    return next(found, {"AMD": "rocm", "Apple": "metal"}.get(vendor, "cuda"))


def shares_of(case: Case, count: int) -> list[float]:
    """What part of the weights each of these GPUs holds: as allocated, where the buffers are as many.

    Else as their memory, which is how llama.cpp splits by default; equal parts where every layer is cut.
    """
    held = [float(b.bytes) for b in buffers_of(case, "model", on_gpu=True)]
    if len(held) != count and case.runtime.tensor_parallel.value_or(1) == 1:
        held = [float(gpu.vram_total_bytes.value_or(0)) for gpu in gpus_used(case)]
    known = len(held) == count and all(held)
    return [part / sum(held) for part in held] if known else [1 / count] * count


def own_cpus(case: Case) -> float:
    """Logical CPUs that the runtime's threads may run on: within the cpuset, whatever the quota."""
    cpu, allowed = case.machine.cpu, allowed_of(case)[0].value_or(0)
    logical = cpu.logical_cpus.value_or(0) or cpu.physical_cores.value_or(0) * cpu.threads_per_core.value_or(1)
    return max(1.0, float(min(filter(None, (logical, allowed)), default=1)))


def wanted_threads(case: Case) -> float:
    """Threads that the runtime computes with: as it was set, else one for each core."""
    return float(case.runtime.threads.value_or(0) or min(_physical_cores(case), own_cpus(case)))


def computing_threads(case: Case, threads: float = 0.0) -> float:
    """Of these or of the wanted threads, those that have a core of their own."""
    return max(1.0, min(threads or wanted_threads(case), _physical_cores(case), own_cpus(case)))


def host_bandwidth(case: Case) -> tuple[float, float]:
    """Bytes per second that the runtime's threads read of the host's memory, and how far off that may be."""
    measured, threads = case.machine.memory.read_bytes_per_s, computing_threads(case)
    if isinstance(measured, Known) and measured.value >= SLOWEST_BYTES_PER_S:
        one = max(SLOWEST_BYTES_PER_S, case.machine.memory.read_one_core_bytes_per_s.value_or(measured.value))
        return min(measured.value, one * threads), SPREAD[measured.origin]
    usual = CORE_FED_BYTES_PER_S * _physical_cores(case)
    return min(usual, CORE_READ_BYTES_PER_S * threads), SPREAD[Origin.ESTIMATED]
