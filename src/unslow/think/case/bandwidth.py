"""How fast the memories of a case are read: the host's, a GPU's, and those of GPUs that share a model."""

import re
from typing import NamedTuple

import msgspec

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import GB, MIB, Absence, Fact, Known, MissingFactError, Origin, Unknown, not_found
from unslow.think.case.demand import missing
from unslow.think.case.gpus import device_of
from unslow.think.case.placement import uses_no_gpu
from unslow.think.case.runtime import runs_paged
from unslow.think.case.vram import buffers_of, gpus_named, gpus_of, gpus_used, number_of, seen_gpus
from unslow.think.memo import once
from unslow.think.physics.terms import SPREAD
from unslow.think.speed.chips import has_links


def quota_of(case: Case) -> tuple[Fact[float], str]:
    """The processors' time that its control group may use, and where that fact stands."""
    own, machine = case.runtime.quota_cpus, case.machine.cpu.quota_cpus
    return (own, "runtime.quota_cpus") if isinstance(own, Known) else (machine, "machine.cpu.quota_cpus")


def allowed_of(case: Case) -> tuple[Fact[int], str]:
    """The processors that it may run on, and where that fact stands."""
    own, machine = case.runtime.allowed_cpus, case.machine.cpu.allowed_cpus
    return (own, "runtime.allowed_cpus") if isinstance(own, Known) else (machine, "machine.cpu.allowed_cpus")


def limits_of(case: Case) -> dict[str, float]:
    """Every limit that is known, by the path of its fact."""
    facts: tuple[tuple[Fact[float] | Fact[int], str], ...] = (quota_of(case), allowed_of(case))
    return {path: float(fact.value) for fact, path in facts if isinstance(fact, Known) and fact.value > 0}


_LEAST_CPUS = 0.01
UNVERIFIED_SPREAD = 1.3  # of a catalogue entry that nobody has checked
SLOWEST_BYTES_PER_S = 1e8  # No memory that runs a model is slower; a figure below it is a mistake
CORE_FED_BYTES_PER_S = 8 * GB
"""Where nobody measured the memory: a machine has about as many cores as it can feed, 64 for 460 GB/s and 8 for 60."""
CORE_READ_BYTES_PER_S = 12 * GB
"""What one core reads at most, there: 11 to 24 GB/s on servers and desktops of the last ten years."""


def cores_of(case: Case) -> float:
    """Cores that can compute for the runtime at once: physical ones, within its cpuset and quota."""
    return min(_physical_cores(case), cpus_of(case))


def _physical_cores(case: Case) -> float:
    cores = case.machine.cpu.physical_cores
    if isinstance(cores, Known) and cores.value:
        return float(cores.value)
    lacking = cores if isinstance(cores, Unknown) else not_found("no cores")
    raise MissingFactError(lacking, "machine.cpu.physical_cores")


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
    device = device_of(gpu)
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


# Whether the memory of a desktop or laptop is as slow as if one of its two channels were empty.
# No file tells a user who is not root which slots are filled; the speed of all cores together does.

ONE_CHANNEL = 23 * GB
"""In a second: one channel of DDR4-3200 has 25.6 GB/s, of which nine tenths can be read; two of the slowest DDR4, at
2133, have 34.1."""
_TWO_CHANNELS = re.compile(
    r"(?i)\bRyzen\b(?!.*Embedded)|\bi[3579]-(?:[6-9]\d{3}|1\d{4})|\bCore(?:\(TM\))? (?:Ultra )?[3579]\b"
)
"""Desktops and laptops with DDR4 or newer: earlier ones, with DDR3, are that slow with both; an N100 has one."""


def slow_as_one_channel(case: Case) -> float | None:
    """Bytes a second that its memory gives, where that is no more than one of two channels would; else None."""
    read, cpu, system = case.machine.memory.read_bytes_per_s, case.machine.cpu, case.machine.system
    real = not isinstance(system.hypervisor, Known) and not system.wsl.value_or(default=False)
    if not isinstance(read, Known) or read.origin is not Origin.MEASURED or not real or not uses_no_gpu(case):
        return None
    return read.value if read.value <= ONE_CHANNEL and _TWO_CHANNELS.search(cpu.model.value_or("")) else None


TENSOR_SPLITS = frozenset({"row", "tensor"})
MARGIN_BYTES = 512 * MIB  # What a split that fills a GPU should leave free there
BRIDGED = 2  # GPUs that one bridge joins: of more cards with bridges, some are joined by PCIe alone


class GpuSplit(NamedTuple):
    """The GPUs that work on one token: how many, and whether each has a part of every layer."""

    gpus: int
    cuts_layers: bool


class GpuShare(NamedTuple):
    """One GPU by its number: the model's bytes on it, what is left free there, what it reads in a second."""

    gpu: int
    model_bytes: float
    free_bytes: float
    bytes_per_s: float


def splits_tensors(case: Case) -> bool | None:
    """Whether every layer is cut in parts, one for each GPU; None where nothing tells how the model is split."""
    parallel, mode = case.runtime.tensor_parallel, case.runtime.split_mode
    if isinstance(parallel, Known) and parallel.value > 1:
        return True
    if isinstance(mode, Known):
        return mode.value in TENSOR_SPLITS
    return False if isinstance(parallel, Known) else None


def gpu_split_of(case: Case, used: int) -> GpuSplit:
    """Those of so many GPUs in use that a token goes over: an engine with several copies of a model uses one of them.

    llama.cpp's own ways to cut layers are not told apart here: what they cost is held against whole layers.
    """
    tensor, pipeline = case.runtime.tensor_parallel, case.runtime.pipeline_parallel.value_or(1)
    if not isinstance(tensor, Known):
        return GpuSplit(max(1, used), cuts_layers=False)
    if tensor.value > 1:  # stages of a pipeline take turns, so a token is on one group of these at a time
        return GpuSplit(tensor.value, cuts_layers=True)
    return GpuSplit(max(1, min(used, pipeline)), cuts_layers=False)


def copies_of(case: Case) -> int:
    """How many copies of the model an engine has, each on GPUs of its own: requests share the steps of one of them."""
    used, tensor = len(gpus_used(case)), case.runtime.tensor_parallel
    if not runs_paged(case) or not isinstance(tensor, Known):
        return 1
    return max(1, used // max(1, tensor.value * case.runtime.pipeline_parallel.value_or(1)))


def has_fast_links(case: Case) -> bool | None:
    """Whether each GPU in use has a link of its own to each (NVLink); None where neither driver nor catalogue tells."""
    gpus, linked, bridged = gpus_used(case), True, False
    for gpu in gpus:
        links, known = gpu.nvlinks_active, device_of(gpu)
        if isinstance(links, Known):
            linked &= links.value > 0
        elif links.absence is Absence.NOT_SUPPORTED or (known and not known.link_bytes_per_s):
            linked = False  # the driver of a card without the connector answers that it is not supported
        else:
            return None
        # A card's links go over a bridge, which joins pairs; a module's over its board
        bridged |= known is not None and not has_links(known)
    return linked and not (len(gpus) > BRIDGED and bridged) if gpus else None


def gpu_shares(case: Case) -> list[GpuShare]:
    """What each GPU of a split holds, by the number at the end of its buffers' names; empty where they have none."""
    held: dict[int, float] = {}
    for buffer in case.runtime.buffers.value_or([]):
        held[_number(buffer)] = held.get(_number(buffer), 0.0) + buffer.bytes
    gpus = {number: gpu for number in sorted(held) if (gpu := gpu_numbered(case, number)) is not None}
    return [
        GpuShare(number, held[number], gpu.vram_free_bytes.need(), device_bandwidth(gpu)[0])
        for number, gpu in gpus.items()
    ]


def gpu_numbered(case: Case, number: int) -> Gpu | None:
    """The GPU that the runtime gives a number: by the device that it lists under it, else by the driver's number."""
    seen, gpus = seen_gpus(case), gpus_of(case)
    listed = [device for device in seen if device.description and number_of(device.name) == number]
    named = gpus_named(case, listed[:1], seen, gpus)
    return named[0] if len(named) == 1 else next((gpu for gpu in gpus if gpu.index == number), None)


def _number(buffer: Buffer) -> int:
    """Of the GPU that holds a part of the model, by the end of the buffer's name; -1 of any other buffer."""
    number = number_of(buffer.device)
    return number if number is not None and buffer.on_gpu and buffer.kind == "model" else -1


def filled_shares(parts: list[GpuShare]) -> list[GpuShare]:
    """The same bytes, on the fastest GPUs first, as far as their free memory goes."""
    left = sum(p.model_bytes for p in parts)
    placed: dict[int, float] = {}
    for part in sorted(parts, key=lambda p: -p.bytes_per_s):
        placed[part.gpu] = min(left, part.model_bytes + max(0.0, part.free_bytes - MARGIN_BYTES))
        left -= placed[part.gpu]
    return [p._replace(model_bytes=placed[p.gpu]) for p in parts]


def split_anew(case: Case) -> list[Buffer]:
    """The runtime's buffers as they would be with the fastest GPUs filled first; one that holds nothing is gone."""
    best = {p.gpu: int(p.model_bytes) for p in filled_shares(gpu_shares(case))}
    buffers = case.runtime.buffers.value_or([])
    first = {number: buffer for buffer in reversed(buffers) if (number := _number(buffer)) in best}
    others = [b for b in buffers if _number(b) not in best]
    return [msgspec.structs.replace(b, bytes=best[n]) for n, b in sorted(first.items()) if best[n]] + others
