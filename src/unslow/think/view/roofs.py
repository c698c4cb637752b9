"""The two limits of each device that computes, and where the numbers come from."""

from typing import NamedTuple

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.units import GB
from unslow.facts.values import Known
from unslow.think.adapt.bandwidth import SLOWEST_BYTES_PER_S, computing_threads, host_bandwidth
from unslow.think.adapt.gpu_question import types_of
from unslow.think.adapt.host_question import chip_of_host, core_flops_of, has_tiles, left_on_host, multiplies_wide
from unslow.think.adapt.prompt_question import threads_for_prompts
from unslow.think.adapt.vram import gpus_used
from unslow.think.physics.kinds import HALF
from unslow.think.physics.placement import Placement, Shape
from unslow.think.speed.question import Question
from unslow.think.speed.totals import Totals
from unslow.think.view.report import Roof

_OVER_PLAIN = 2.0
"""Of a core, where it multiplies floats: it has two units of the kind that `core_flops_of` counts one of."""
_INTEGERS_OVER_PLAIN = 8.0
"""Where it multiplies 8-bit integers: four times as many fit a vector, in two units."""
_TILES_OVER_PLAIN = 128.0
"""Where it has AMX: 2048 operations on 8-bit integers a cycle."""
_WIDER = 2.0  # vectors of 512 bits instead of 256


class HostPart(NamedTuple):
    """The part of a model that the CPU computes, and the CPU's roof."""

    totals: Totals
    roof: Roof


def crew_roof(case: Case, question: Question) -> Roof:
    """The GPUs that a token goes over, one after the other."""
    gpus = gpus_used(case)
    count = max(1, round(float(question.gpus)))
    flops, how = _flops(case, gpus[0], float(question.chip.matrix_flops_per_s or question.chip.flops_per_s))
    name = gpus[0].name.value_or("the GPU")
    return _roof(
        f"{count} × {name}, in turns" if count > 1 else name,
        float(question.chip.bytes_per_s),
        flops,
        f"{_bandwidth_source(gpus[0])}; {how}",
    )


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
    gain, kind = _cpu_gain(case)
    flops = float(chip_of_host(case, rate, threads).flops_per_s) * gain
    each = core_flops_of(case.machine.cpu) * gain / GB
    source = f"{_ram_source(case, rate)}; {threads:.0f} cores of at most {each:,.0f} GFLOP/s each, {kind}"
    return HostPart(totals, _roof(case.machine.cpu.model.value_or("the CPU"), rate, flops, source))


def _roof(device: str, bytes_per_s: float, flops_per_s: float, source: str) -> Roof:
    return Roof(
        device=device,
        bytes_per_s=bytes_per_s,
        flops_per_s=flops_per_s,
        ridge_flops_per_byte=flops_per_s / bytes_per_s,
        source=source,
    )


def _flops(case: Case, gpu: Gpu, matrix: float) -> tuple[float, str]:
    """Quantised weights are multiplied as 8-bit integers where the chip can."""
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


def _cpu_gain(case: Case) -> tuple[float, str]:
    """How many times what a core's plain products are, and in which numbers."""
    cpu = case.machine.cpu
    wide = _WIDER if multiplies_wide(cpu) else 1.0
    if types_of(case) == HALF:
        return _OVER_PLAIN * wide, "32-bit floats"
    return (_TILES_OVER_PLAIN if has_tiles(cpu) else _INTEGERS_OVER_PLAIN * wide), "8-bit integers"
