"""A machine with one more GPU, which the runtime does not use: alike, weaker, or a part of the processor."""

from collections.abc import Callable
from typing import Any

import msgspec
from cases import r

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.run import GpuTelemetry, GpuUnderLoad, PhaseTelemetry, Run, Stat
from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.values import GIB, MIB, Known
from unslow.think.case.view import CaseView

replace = msgspec.structs.replace
BUS_ID = "0000:7f:00.0"


def tells_its_gpu(case: Case) -> bool:
    """Whether there is one GPU, a second could be added, and a fact says whether the runtime has the first.

    The runtime's own list tells it, or the driver's of processes. A Mac takes no second one.
    """
    one = len(case.machine.gpus.value_or(())) == 1 and not CaseView(case).gpus.is_apple
    return one and (
        bool(CaseView(case).gpus.holding_model)
        or len(CaseView(case).gpus.seen_by_runtime) == 1
        or CaseView(case).gpus.visible_to_runtime is False
    )


def idle_twin(gpu: Gpu) -> Gpu:
    """The same card again, with nobody on it."""
    total = gpu.vram_total_bytes.value_or(24 * GIB)
    return replace(
        gpu, index=1, bus_id=r(BUS_ID), vram_total_bytes=r(total), vram_used_bytes=r(3 * MIB), processes=r([]),
        vram_free_bytes=r(total - 3 * MIB), busy=r(0.0), clock_hz=r(210e6), performance_state=r("P8"), power_w=r(30.0),
        temperature_c=r(35.0), event_reasons=r(["gpu_idle"]), shared_used_bytes=r(0), gtt_used_bytes=r(0),
    )  # fmt: skip


def working_twin(gpu: Gpu) -> Gpu:
    """The same card again, on which somebody trains a model, too hot, with memory lent by the system."""
    total = gpu.vram_total_bytes.value_or(24 * GIB)
    held = int(0.97 * total)
    return replace(
        idle_twin(gpu), vram_used_bytes=r(held), vram_free_bytes=r(total - held), busy=r(1.0),
        performance_state=r("P0"), clock_hz=r(600e6), clock_max_hz=r(1980e6), temperature_c=r(92.0),
        event_reasons=r(["hw_thermal_slowdown"]),
        processes=r([GpuProcess(pid=999_983, name=r("python3"), vram_bytes=r(held))]), shared_used_bytes=r(6 * GIB),
    )  # fmt: skip


def weaker_card(gpu: Gpu) -> Gpu:
    """A small card for the screen, with a desktop on it."""
    desktop = GpuProcess(pid=999_979, name=r("/usr/lib/xorg/Xorg"), vram_bytes=r(200 * MIB))
    return replace(
        idle_twin(gpu), vendor=r("NVIDIA"), name=r("NVIDIA T400"), vram_total_bytes=r(2 * GIB), processes=r([desktop]),
        vram_used_bytes=r(210 * MIB), vram_free_bytes=r(2 * GIB - 210 * MIB), compute_capability=r("7.5"),
    )  # fmt: skip


def of_the_processor(_gpu: Gpu) -> Gpu:
    """What a desktop's processor has, under the same number: each driver counts its own from nought."""
    return Gpu(index=0, vendor=r("Intel"), name=r("Intel UHD Graphics 770"), kind=r("integrated"), bus_id=r(BUS_ID))


SECOND: dict[str, Callable[[Gpu], Gpu]] = {
    "idle twin": idle_twin, "working twin": working_twin, "weaker card": weaker_card, "processor": of_the_processor,
}  # fmt: skip


def with_second(snapshot: Snapshot, make: Callable[[Gpu], Gpu]) -> Snapshot:
    """The snapshot of the same machine with one more GPU, watched like the first; a processor's own stands first."""
    (gpu,) = snapshot.machine.gpus.need()
    other = make(gpu)
    both = (other, gpu) if other.kind.value_or("") == "integrated" else (gpu, other)
    machine = replace(snapshot.machine, gpus=_with(snapshot.machine.gpus, both))
    subjects = tuple(replace(s, run=_watched(s.run, other)) for s in snapshot.subjects)
    return replace(snapshot, machine=machine, subjects=subjects)


def _watched(run: Run, gpu: Gpu) -> Run:
    changes: dict[str, Any] = {}
    busy = gpu.busy.value_or(0.0)
    if isinstance(run.gpus, Known):
        under = GpuUnderLoad(
            index=gpu.index, samples=20, busy=r(busy), memory_busy=r(busy), others_busy=r(busy),
            event_reasons=gpu.event_reasons, clock_hz=gpu.clock_hz, temperature_max_c=gpu.temperature_c,
        )  # fmt: skip
        changes["gpus"] = _with(run.gpus, (under, *run.gpus.value))
    if isinstance(run.telemetry, Known):
        phases = tuple(_in_phase(phase, gpu, busy) for phase in run.telemetry.value.phases)
        changes["telemetry"] = _with(run.telemetry, replace(run.telemetry.value, phases=phases))
    return replace(run, **changes)


def _in_phase(phase: PhaseTelemetry, gpu: Gpu, busy: float) -> PhaseTelemetry:
    names = {"busy": busy, "others_busy": busy, "pcie_receive_bytes_per_s": busy * 12e9}
    figures = {name: Stat(mean=v, low=v, high=v, last=v, samples=phase.samples) for name, v in names.items()}
    watched = GpuTelemetry(index=gpu.index, name=gpu.bus_id.value_or(""), figures=figures)
    return replace(phase, gpus=(watched, *phase.gpus)) if phase.gpus else phase


def _with(fact: Any, value: Any) -> Any:
    return replace(fact, value=value)
