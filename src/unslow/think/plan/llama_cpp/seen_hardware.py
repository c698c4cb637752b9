"""The machine of a case as the search takes it: what its processors and GPUs were seen to do."""

from collections.abc import Sequence

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin
from unslow.think.adapt.bandwidth import CORE_FED_BYTES_PER_S, SLOWEST_BYTES_PER_S, cpus_of, own_cpus
from unslow.think.adapt.calibrated import calibration_of
from unslow.think.adapt.gpu_question import build_year, chip_of_gpu, gpu_setting
from unslow.think.adapt.host_question import core_flops_of, host_setting
from unslow.think.adapt.host_weights import host_link_bytes_per_s
from unslow.think.fit.rooms import Room
from unslow.think.physics.chip import Chip
from unslow.think.physics.placement import Placement
from unslow.think.plan.llama_cpp.hardware import Hardware, Processors, may_pin
from unslow.think.speed.chips import has_peers
from unslow.think.speed.question import USUAL_LINK

_NOTHING = Placement(0, output_on_gpu=False)


def hardware_of(case: Case, gpus: Sequence[Gpu], rooms: Sequence[Room], host: Room | None) -> Hardware:
    """The machine; MissingFactError where nobody knows how fast a GPU is."""
    beside = host_setting(case, _NOTHING)
    slower = _slower(case) if gpus else 1.0
    return Hardware(
        rooms=tuple(rooms),
        chips=tuple(_scaled(chip_of_gpu(gpu)[0], slower) for gpu in gpus),
        setting=gpu_setting(case, gpus[0]) if gpus else beside,
        processors=processors_of(case),
        host_setting=beside,
        host_room=host,
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


def processors_of(case: Case) -> Processors:
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
