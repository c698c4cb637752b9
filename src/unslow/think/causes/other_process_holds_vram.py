"""Another program holds the GPU memory that the model lacks.

## Why it is slow
The runtime places only what fits into the memory that is free when it loads. What a browser, a game, an image
generator or a second model holds at that moment is missing for good: layers go to the CPU, or the load fails.

## How to confirm
`nvidia-smi` lists the processes with their memory. Together the strangers hold at least what the model lacks.

## How to fix
Close them, or start them after the model; run the display on another GPU; or plan with the memory that is left.

## Safety
Ending a program loses its unsaved work. This tool names it and never ends it.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.facts.values import Known, MissingFactError, Unknown
from unslow.think.adapt.demand import read_demand
from unslow.think.adapt.placement import layers_left_on_host
from unslow.think.adapt.vram import failed_on_gpu, own_is_known, strangers
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, free_before_load, need
from unslow.think.report import Evidence


def check(case: Case) -> Found | Absent:
    """Hold what strangers have against what the model lacks."""
    failed = case.runtime.allocation_failure.value_or(None) is not None
    if not failed and not layers_left_on_host(case):
        return Absent("the whole model is on the GPU")
    if failed and not failed_on_gpu(case):
        return Absent("it was memory of the host that could not be allocated")
    lacking = read_demand(case).lacking
    if lacking <= 0:
        return Absent("nothing is lacking on the GPU")
    need(case, "machine.gpus.0.processes")
    if not own_is_known(case):
        need(case, "runtime.pid")
    others = [p for p in strangers(case) if p.vram_bytes.value_or(0)]
    held = sum(p.vram_bytes.value_or(0) for p in others)
    if held < lacking:
        return Absent(f"others hold {held / GIB:.1f} GiB, {lacking / GIB:.1f} GiB are lacking")
    names = ", ".join(
        f"{p.name.value_or('unnamed')} (pid {p.pid}, {p.vram_bytes.need() / GIB:.1f} GiB)" for p in others[:3]
    )
    available = read_demand(case).available
    return Found(
        because=f"{names} hold{'s' if len(others) == 1 else ''} {held / GIB:.1f} GiB of GPU memory; the model lacks "
        f"{lacking / GIB:.1f} GiB",
        evidence=(*(_evidence(p.pid, p.vram_bytes, lacking) for p in others[:3]), *free_before_load(case)),
        cure=None if failed else Cure(vram_bytes=available + held),
        remedies=(
            Remedy(
                Knob.OTHER_PROCESS.to(others[0].pid, "close it or start it after the model, then restart the runtime"),
                None,
                "unsaved work",
            ),
        ),
    )


def _evidence(pid: int, vram: Known[int] | Unknown, lacking: float) -> Evidence:
    if isinstance(vram, Unknown):
        raise MissingFactError(vram)
    return Evidence(
        fact=f"machine.gpus.processes.{pid}.vram_bytes", value=vram.value, reference=f"{lacking / GIB:.1f} GiB lacking",
        origin=str(vram.origin), source=vram.source,
    )  # fmt: skip


CAUSE = Cause(
    title="Another process holds GPU memory",
    phase="decode",
    needs=("machine.gpus", ("runtime.gpu_layers", "runtime.allocation_failure", "machine.gpus.0.processes")),
    check=check,
    gpu_only=True,
    explains=("weights_spill_to_ram", "memory_allocation_failed"),
)
