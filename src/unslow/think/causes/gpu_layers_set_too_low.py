"""A setting keeps layers off a GPU that has room for them.

## Why it is slow
The layers that the setting leaves out are computed by the CPU from RAM, ten to fifty times slower each than on the
GPU. Such a setting is often copied from a guide for another card, or was right for an earlier model or context.

## How to confirm
The command line, the environment or the Modelfile names a number of GPU layers (`-ngl`, `--gpu-layers`, `num_gpu`)
below all of them, while the GPU has room for at least one more.

## How to fix
Remove the setting: the runtime then places as many layers as fit. Or set it to the number that fits.

## Safety
Answers do not change. The GPU's memory fills up: leave room for what else uses it.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.facts.values import MissingFactError
from unslow.think.adapt.demand import fitting_placement
from unslow.think.adapt.hardware import vram_total_bytes
from unslow.think.adapt.shape import read_shape
from unslow.think.adapt.vram import available_vram_bytes, runtime_sees_gpu
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, cite, free_before_load

SURELY_FREE = 0.75


def check(case: Case) -> Found | Absent:
    """Hold the number that was set against the number that fits."""
    asked, setting = _asked(case)
    if asked is None:
        return Absent("nothing sets the number of GPU layers")
    if setting != "device_set" and runtime_sees_gpu(case) is False:
        return Absent("the runtime sees no GPU, so the setting has no effect")
    shape = read_shape(case)
    total = shape.layers + 1
    if asked >= total:
        return Absent(f"{asked} layers asked for, the model has {total}")
    available = _room(case)
    context = case.runtime.context_length.value_or(4096)
    room = fitting_placement(case, shape, available, context)
    fitting = int(room.gpu_layers) + room.output_on_gpu
    if fitting <= asked:
        available_vram_bytes(case)  # only what was really free may rule it out
        return Absent(f"{asked} layers set, and no more than {fitting} fit")
    cure = Cure(vram_bytes=available)
    who = "the default of this build" if setting == "gpu_layers" else "a setting"
    return Found(
        because=f"{who} keeps {total - asked} of {total} layers on the CPU; the GPU had "
        f"{available / GIB:.0f} GiB free, enough for {fitting}",
        evidence=(cite(case, f"runtime.{setting}", f"{total} layers, {fitting} of them fit"), *free_before_load(case)),
        cure=cure,
        remedies=(_remedy(setting, fitting, total, cure),),
    )


def _asked(case: Case) -> tuple[int | None, str]:
    """The number of layers that was decided on, and which fact says so; None where the runtime fits them itself."""
    runtime = case.runtime
    if runtime.device_set.value_or("") == "none":
        return 0, "device_set"
    number = runtime.gpu_layers_set.value_or(None)
    if number is not None and number >= 0:
        return number, "gpu_layers_set"
    if runtime.gpu_layers.value_or(None) == 0 and not runtime.fit.value_or(default=False):
        return 0, "gpu_layers"  # builds without a fit leave everything on the CPU unless told otherwise
    return None, ""


def _room(case: Case) -> float:
    """What was free; where nobody looked, what is free on any card of this size that shows a desktop."""
    try:
        return available_vram_bytes(case)
    except MissingFactError:
        total = vram_total_bytes(case)
        if total is None:
            raise
        return SURELY_FREE * total


def _remedy(setting: str, fitting: int, total: int, cure: Cure) -> Remedy:
    if setting == "device_set":
        return Remedy(Knob.DEVICE.to(None, "remove the setting: the GPU is switched off by it"), cure)
    if setting == "gpu_layers":
        return Remedy(Knob.GPU_LAYERS.to(fitting, f"{fitting} of {total} layers fit"), cure)
    if fitting == total:
        return Remedy(Knob.GPU_LAYERS.to(None, "remove the setting: all layers fit"), cure)
    return Remedy(Knob.GPU_LAYERS.to(fitting, f"{fitting} of {total} layers fit"), cure)


CAUSE = Cause(
    title="A setting keeps layers off the GPU",
    phase="decode",
    needs=("machine.gpus", ("runtime.command", "runtime.gpu_layers_set", "runtime.device_set")),
    check=check,
    explains=(
        "weights_spill_to_ram",
        "other_process_holds_vram",
        "context_larger_than_needed",
        "memory_estimate_too_careful",
    ),
    gpu_only=True,
    ask="the command line of the runtime (`ps -ww -o args -C llama-server`), or `ollama show MODEL --modelfile`",
)
