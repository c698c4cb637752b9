"""The machine has a GPU and the runtime does not use it, because its GPU backend is missing or could not start.

## Why it is slow
Everything runs on the CPU: a token reads all weights from RAM, ten to fifty times slower than from the GPU's memory.

## How to confirm
llama.cpp lists no GPU (`--list-devices` says `(none)`; with `-lv 4` the device list holds only the CPU and no buffer
is on a GPU), or says why: `failed to initialize CUDA`, `no usable GPU found`. Hidden load lines are no proof: from
build 9151 on they need `-lv 4`.

## How to fix
Install the build for your GPU (CUDA, ROCm, Vulkan, Metal), the driver, and its run-time libraries; in a container
pass the device on (`--gpus all`, `--device /dev/kfd --device /dev/dri`) and be in the groups `video` and `render`;
look for an empty `CUDA_VISIBLE_DEVICES`.

## Safety
Answers do not change beyond rounding.
"""

from typing import Any

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.shape import missing
from unslow.think.adapt.vram import buffers_of, free_vram_bytes, gpus_of, runtime_sees_gpu
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, cite
from unslow.think.report import Evidence


def check(case: Case) -> Found | Absent:
    """See whether the runtime knows of any GPU."""
    runtime, gpus = case.runtime, gpus_of(case)
    if runtime.embedded:
        return Absent("the embedded engine has no GPU backend: it measures the CPU on purpose")
    if runtime.device_set.value_or("") == "none":
        return Absent("the GPU is switched off by a setting")
    sees = runtime_sees_gpu(case)
    if sees:
        return Absent("the runtime uses a GPU")
    if sees is None:
        raise missing(
            "whether the runtime sees the GPU", "restart llama-server with `-lv 4`, or run it with --list-devices"
        )
    hidden = runtime.environment.value_or({}).get("CUDA_VISIBLE_DEVICES")
    why = runtime.gpu_refused.value_or("it lists no GPU")
    if hidden is not None and hidden.strip() in ("", "-1"):
        why = f"{why}; CUDA_VISIBLE_DEVICES={hidden!r} hides it"
    return Found(
        because=f"the machine has {gpus[0].name.value_or('a GPU')}, and the runtime uses none: {why}",
        evidence=_evidence(case),
        cure=Cure(vram_bytes=free_vram_bytes(case)),
        remedies=(
            Remedy(Knob.GPU_BACKEND.to(None, "a build, driver, container or environment in which the GPU is seen")),
        ),
    )


def _evidence(case: Case) -> tuple[Evidence, ...]:
    runtime = case.runtime
    items = [cite(case, "machine.gpus.0.name", "a GPU is there")] if isinstance(gpus_of(case)[0].name, Known) else []
    if isinstance(runtime.gpu_refused, Known):
        items.append(cite(case, "runtime.gpu_refused"))
    if isinstance(runtime.devices, Known):
        names = ", ".join(d.name for d in runtime.devices.value) or "none"
        items.append(_item("runtime.devices", names, "no GPU among them", runtime.devices))
    if isinstance(runtime.buffers, Known) and (host := buffers_of(case, "model", on_gpu=False)):
        items.append(
            _item("runtime.buffers", f"{host[0].device} {host[0].bytes} bytes", "none on a GPU", runtime.buffers)
        )
    return tuple(items)


def _item(fact: str, value: str, reference: str, known: Known[Any]) -> Evidence:
    return Evidence(fact=fact, value=value, reference=reference, origin=str(known.origin), source=known.source)


CAUSE = Cause(
    title="The GPU backend is not loaded",
    phase="decode",
    needs=("machine.gpus", ("runtime.gpu_refused", "runtime.devices", "runtime.buffers", "machine.gpus.0.processes")),
    check=check,
    gpu_only=True,
)
