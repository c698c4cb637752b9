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
from unslow.think.adapt.shape import read_shape
from unslow.think.adapt.vram import available_vram_bytes, compute_bytes, margin_bytes, runtime_sees_gpu
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, cite, free_before_load
from unslow.think.physics.placement import fitted


def check(case: Case) -> Found | Absent:
    """Hold the number that was set against the number that fits."""
    runtime = case.runtime
    switched_off = runtime.device_set.value_or("") == "none"
    asked = 0 if switched_off else runtime.gpu_layers_set.value_or(None)
    if asked is None or asked < 0:
        return Absent("nothing sets the number of GPU layers")
    if not switched_off and runtime_sees_gpu(case) is False:
        return Absent("the runtime sees no GPU, so the setting has no effect")
    shape = read_shape(case)
    total = shape.layers + 1
    if asked >= total:
        return Absent(f"{asked} layers asked for, the model has {total}")
    available = available_vram_bytes(case)
    context = runtime.context_length.value_or(4096)
    room = fitted(shape, available, context, compute_bytes(case), margin_bytes(case))
    fitting = int(room.gpu_layers) + room.output_on_gpu
    if fitting <= asked:
        return Absent(f"{asked} layers set, and no more than {fitting} fit")
    value = None if fitting == total else fitting
    why = "remove the setting: all layers fit" if value is None else f"{fitting} of {total} layers fit"
    setting = "device_set" if switched_off else "gpu_layers_set"
    evidence = [cite(case, f"runtime.{setting}", f"{total} layers, {fitting} of them fit"), *free_before_load(case)]
    cure = Cure(vram_bytes=available)
    return Found(
        because=f"a setting keeps {total - asked} of {total} layers on the CPU; the GPU had "
        f"{available / GIB:.0f} GiB free, enough for {fitting}",
        evidence=tuple(evidence),
        cure=cure,
        remedies=(Remedy(Knob.GPU_LAYERS.to(value, why), cure),),
    )


CAUSE = Cause(
    title="A setting keeps layers off the GPU",
    phase="decode",
    needs=("machine.gpus", "runtime.command"),
    check=check,
    gpu_only=True,
)
