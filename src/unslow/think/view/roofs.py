"""The two limits of each device that computes, and where the numbers come from."""

from collections import Counter
from typing import NamedTuple

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.units import GB, MHZ
from unslow.facts.values import Known
from unslow.think.adapt.bandwidth import SLOWEST_BYTES_PER_S, computing_threads, host_bandwidth
from unslow.think.adapt.gpu_question import chip_of_gpu, types_of
from unslow.think.adapt.host_question import clock_of, left_on_host
from unslow.think.adapt.prompt_question import threads_for_prompts
from unslow.think.adapt.vram import gpus_used
from unslow.think.physics.kinds import HALF
from unslow.think.physics.placement import Placement, Shape
from unslow.think.speed.question import Question
from unslow.think.speed.totals import Totals
from unslow.think.view.cpu_peaks import peak_of
from unslow.think.view.report import Roof


class HostPart(NamedTuple):
    """The part of a model that the CPU computes, and the CPU's roof."""

    totals: Totals
    roof: Roof


def crew_roof(case: Case, question: Question) -> Roof:
    """The GPUs that a token goes over, one after the other."""
    count = max(1, round(float(question.gpus)))
    gpus = gpus_used(case)[:count]
    names = Counter(gpu.name.value_or("the GPU") for gpu in gpus)
    arithmetic = [_flops(case, gpu) for gpu in gpus]
    sources = dict.fromkeys(f"{_bandwidth_source(gpu)}; {how}" for gpu, (_, how) in zip(gpus, arithmetic, strict=True))
    return _roof(
        _crew_name(names, count),
        float(question.chip.bytes_per_s),
        sum(flops for flops, _ in arithmetic) / len(gpus),
        "; ".join(sources),
    )


def _crew_name(names: Counter[str], count: int) -> str:
    if count == 1:
        return next(iter(names))
    if len(names) == 1:
        return f"{count} × {next(iter(names))}, in turns"
    return f"{' and '.join(f'{n} × {name}' if n > 1 else name for name, n in names.items())}, in turns"


def together(roof: Roof, gpus: float) -> Roof:
    """So many of them at once."""
    count = max(1, round(gpus))
    if count == 1:
        return roof
    name = roof.device.replace(", in turns", " at once")
    return _roof(name, roof.bytes_per_s * count, roof.flops_per_s * count, roof.source)


def host_roof(case: Case, shape: Shape, placement: Placement, *, prompts: bool = False) -> HostPart | None:
    """The CPU, where a part of the model lies with it."""
    totals = left_on_host(case, shape, placement)
    if totals.dense_bytes + totals.expert_bytes <= 0:
        return None
    rate, _ = host_bandwidth(case)
    threads = threads_for_prompts(case) if prompts else computing_threads(case)
    each, how = _core(case)
    source = f"{_ram_source(case, rate)}; {_cores(threads)} of at most {each / GB:,.0f} GFLOP/s: {how}"
    return HostPart(totals, _roof(case.machine.cpu.model.value_or("the CPU"), rate, threads * each, source))


def _roof(device: str, bytes_per_s: float, flops_per_s: float, source: str) -> Roof:
    return Roof(
        device=device,
        bytes_per_s=bytes_per_s,
        flops_per_s=flops_per_s,
        ridge_flops_per_byte=flops_per_s / bytes_per_s,
        source=source,
    )


def _flops(case: Case, gpu: Gpu) -> tuple[float, str]:
    """Quantised weights are multiplied as 8-bit integers where the chip can."""
    chip, _ = chip_of_gpu(gpu)
    matrix = float(chip.matrix_flops_per_s or chip.flops_per_s)
    device = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    if device is None:
        return matrix, "arithmetic estimated from the bandwidth"
    if types_of(case) != HALF and device.int8_ops_per_s > matrix:
        source = device.sources.get("int8_ops_per_s", device.source)
        return device.int8_ops_per_s, f"8-bit integers by the catalogue ({source})"
    return matrix, f"16-bit floats by the catalogue ({device.sources.get('fp16_flops_per_s', device.source)})"


def _bandwidth_source(gpu: Gpu) -> str:
    if gpu.memory_clock_max_hz.value_or(0) * gpu.memory_bus_bits.value_or(0) / 4 >= SLOWEST_BYTES_PER_S:
        return "memory clock and bus as the driver tells"
    device = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    return f"bandwidth by the catalogue ({device.source})" if device else "bandwidth as reported"


def _ram_source(case: Case, rate: float) -> str:
    measured = case.machine.memory.read_bytes_per_s
    if isinstance(measured, Known) and measured.value >= SLOWEST_BYTES_PER_S:
        less = " by one core, times the threads" if rate < measured.value else ""
        return f"RAM as {measured.origin.value}{less}"
    return "RAM estimated from the number of cores"


def _core(case: Case) -> tuple[float, str]:
    """Operations a second of one core, and how it comes to them."""
    cpu = case.machine.cpu
    peak, clock = peak_of(cpu), clock_of(cpu)
    a_cycle, kind = (peak.floats, "32-bit floats") if types_of(case) == HALF else (peak.integers, "8-bit integers")
    return (
        a_cycle * clock,
        f" each: {a_cycle:,.0f} operations on {kind} a cycle with {peak.name}, {clock / MHZ:,.0f} MHz",
    )


def _cores(threads: float) -> str:
    return "1 core" if round(threads) == 1 else f"{threads:.0f} cores"
