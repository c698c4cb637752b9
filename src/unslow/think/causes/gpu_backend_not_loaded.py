"""The machine has a GPU, but the runtime does not use it: its GPU backend is missing or could not start.

## Why it is slow
Everything runs on the CPU: a token reads all weights from RAM, ten to fifty times slower than from VRAM.

Guides rank heat and settings before it, but among confirmed reports this is the most frequent cause, and none was
heat.

## How to confirm
llama.cpp lists no GPU (`--list-devices` says `(none)`; with `-lv 4` the device list holds only the CPU and no buffer
is on a GPU), or says why: `failed to initialize CUDA`, `no usable GPU found`. Ollama's log says `library=cpu`.

## What it is not
Load lines that are hidden: from build 9151 on, llama.cpp prints them only with `-lv 4`, so their absence proves
nothing. Nor a setting that keeps all layers off the GPU on purpose.

## How to fix
Install the build for your GPU, its driver and libraries; pass the device to the container; unset what hides it:
- llama.cpp: a CUDA, HIP, Vulkan or Metal build, with its `libggml-*.so` beside it
- Ollama: its own package with `lib/ollama`; Docker: `--gpus all` (AMD: `--device /dev/kfd --device /dev/dri` and the
  image `:rocm`); be in the groups `video` and `render`
- LM Studio: `lms runtime ls`, then `lms runtime select` the CUDA, ROCm or Vulkan engine; KoboldCpp: `--usecuda` or
  `--usevulkan`
- vLLM, Transformers: a PyTorch wheel for CUDA or ROCm, not `+cpu`: `torch.cuda.is_available()` must be true
- any: an empty or wrong `CUDA_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES`, `ROCR_VISIBLE_DEVICES`,
  `GGML_VK_VISIBLE_DEVICES` hides the GPU

## Safety
Answers do not change beyond rounding.
"""

import re

from unslow.facts.account import Remark, Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.device import device_of, is_integrated
from unslow.think.case.group import missing
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Route, Suspected, all_of, finding

_HOST_BACKENDS = {"CPU", "BLAS", "RPC", "LLAMAFILE", "AMX"}
_NAMES_A_GPU = re.compile(
    r"(?i)/dev/(?:kfd|dri|nvidia)|amdgpu|permission|driver|devices? (?:was |were )?detected|gfx ?\d"
    r"|(?:rocm|cuda|vulkan) device|cuda runtime|bounds for 0 devices"
)
_PRINTED = re.compile(
    r"(?i)is_available\(\)|\d\+cpu\b|:[\w.-]{0,30}-?cpu\b|device\(cpu|platform\W{1,3}cpu"
    r"|cpu[- ]only (?:build|wheel|torch|pytorch|binary|image)|initialize nvml"
    r"|(?:built|compiled) without (?:cuda|gpu|cublas|hip|rocm|vulkan|metal)"
)
"""Output of a program, or words on the build, that settle it."""
_NO_USE_AT_ALL = re.compile(
    r"(?i)\bno gpu (?:offload|usage|use|activity|acceleration)|(?:only|100 ?%)[^.;]{0,10}\bcpu\b"
    r"|\b(?:on|to) (?:the )?cpu\b|gpu[^.;]{0,16}(?:not|n.t|never)[^.;]{0,8}(?:used|detected|found|recogni)"
    r"|(?:not|n.t)[^.;]{0,6}(?:use|using|find|detect)[^.;]{0,12}gpu"
)
_INSTALL = "install a build for this GPU, with its driver"
_HELP = (
    (
        re.compile(r"(?i)bounds for 0 devices|No CUDA runtime"),
        "make the GPU visible to it: check `nvidia-smi` and `CUDA_VISIBLE_DEVICES`; a container needs `--gpus all`",
    ),
    (re.compile(r"(?i)driver.{0,20}too old|old CUDA driver|driver version is insufficient"), "update the GPU driver"),
    (re.compile(r"integrated GPU|\biGPU\b"), "let the runtime use the integrated GPU, which it skips by default"),
    (
        re.compile(r"(?i)permission|denied|/dev/kfd|no ROCm-capable device"),
        f"{_INSTALL}, and let the runtime open the device",
    ),
)
"""What makes the GPU usable, by the reason that the runtime gave."""
_COMPLAINTS = (Topic.GPU_UNUSED, Topic.GPU_LOST, Topic.GPU_LIBRARY_MISSING, Topic.CPU_ONLY_BUILD)


def cpu_on_purpose(case: CaseView) -> Absent | None:
    """The embedded engine, or a setting, keeps the GPU out on purpose."""
    if case.runtime.embedded:
        return Absent("the embedded engine has no GPU backend: it measures the CPU on purpose")
    return Absent("a setting disables the GPU") if case.runtime.placement.device_set.get() == "none" else None


def integrated_gpu(case: CaseView) -> Absent | None:
    """A small integrated GPU is about as fast as the CPU."""
    devices = [device_of(gpu) for gpu in case.gpus.usable]
    are_slow = all(device is None or device.vendor == "Intel" for device in devices)  # unlike Apple's and some of AMD's
    if not devices or not are_slow or not all(is_integrated(gpu) for gpu in case.gpus.usable):
        return None
    return Absent(f"{case.gpus.label} is an integrated GPU, about as fast as the CPU")


def devices_of_runtime(case: CaseView) -> Found | Absent | None:
    """The devices that the runtime lists, its buffers, and its process on the machine's GPUs."""
    sees = case.gpus.visible_to_runtime
    if sees:
        return Absent("the runtime uses a GPU")
    if sees is None or not case.gpus.usable:
        return None
    devices, on_host = case.runtime.placement.devices.get(), case.vram.buffers("model", on_gpu=False)
    why, cited = "it holds no GPU memory", case.cite_known("runtime.placement.gpu_refused")
    if devices is not None:
        listed = ", ".join(device.name for device in devices) or "none"
        cited = (*cited, case.cite("runtime.placement.devices", "no GPU among them", listed))
    if on_host:
        why, held = "its weights are in host memory", f"{on_host[0].device} {on_host[0].bytes} bytes"
        cited = (*cited, case.cite("runtime.memory.buffers", "none on a GPU", held))
    why = case.runtime.placement.gpu_refused.get() or ("it lists no GPU" if devices is not None else why)
    hidden = "".join(f"; {name}={case.engine.environment[name]!r} hides it" for name in case.gpus.hiding_variables)
    gpus = [f"machine.gpus.{place}" for place, _ in case.gpus.places]
    there = case.cite_known(f"{gpus[0]}.name", f"{gpus[0]}.vendor", reference="a GPU is there")[:1]
    # What each GPU holds, where that alone shows that the model is on none
    used = case.cite_known(*(f"{gpu}.vram_used_bytes" for gpu in gpus), reference="none of it the runtime's")
    because = f"the machine has {case.gpus.label}, but the runtime uses no GPU: {why}{hidden}"
    return _unused_gpu(case, because, there, cited or used)


def refusal(case: CaseView) -> Found | Suspected | None:
    """The reason that a driver or runtime gave for not using a GPU, where the machine's GPUs were not listed."""
    refused = case.runtime.placement.gpu_refused.get()
    if refused is None or isinstance(case.machine.gpus, Known):
        return None
    said = case.narrative.remarks_on(*_COMPLAINTS)
    if not said and not _NAMES_A_GPU.search(refused):
        return Suspected(refused, "machine.gpus", "{gpu_list}")
    return _unused_gpu(
        case, f"the runtime could not open the GPU: {refused}", "runtime.placement.gpu_refused", *said[:1]
    )


def loaded_backends(case: CaseView) -> Found | Suspected | None:
    """The backends that were loaded: proof only with an idle GPU that a user sees, since a log may be cut short."""
    backends = case.runtime.build.backends.get()
    if backends is None or not case.gpus.usable or not set(backends) <= _HOST_BACKENDS:
        return None
    said, names = case.narrative.remarks_on(*_COMPLAINTS), ", ".join(backends)
    # `system_info` lists them all, and the CPU's is loaded last; other lines may lack the one that matters
    is_complete = isinstance(case.runtime.build.features, Known) or (len(backends) > 1 and backends[-1] == "CPU")
    if not said or not is_complete:
        return Suspected(f"only {names} was loaded", "runtime.placement.devices", CAUSE.ask)
    because = f"the machine has {case.gpus.label}, but the runtime loaded only {names}"
    return _unused_gpu(case, because, (case.cite("runtime.build.backends", "no GPU among them", names),), said[0])


def unreachable_gpu(case: CaseView) -> Found | None:
    """A GPU that this runtime cannot reach: hidden by a variable, or behind a container or system without access."""
    lost = case.gpus.unreachable
    if lost is None or lost.by_architecture or case.narrative.blames_version:
        return None
    said = case.narrative.remarks_on(*_COMPLAINTS)
    return _unused_gpu(case, f"the runtime cannot reach the GPU: {lost.why}", lost.fact, *said[:1])


def missing_library(case: CaseView) -> Found | None:
    """A program printed that a library of the GPU backend is missing, or that it lost the GPU."""
    absent, idle = case.narrative.remarks_on(Topic.GPU_LIBRARY_ABSENT), case.narrative.remarks_on(Topic.GPU_UNUSED)
    closed, lost = case.narrative.remarks_on(Topic.GPU_NOT_PASSED), case.narrative.remarks_on(Topic.GPU_LOST)
    if not case.gpus.usable:
        return None
    if absent:
        because = f"the machine has {case.gpus.label}, but a library for it is missing: {absent[0].text}"
        return _unused_gpu(case, because, case.narrative.cite_remarks(absent))
    if not idle or not (closed or lost):
        return None
    because = f"the runtime lost {case.gpus.label}, and has computed on the CPU since"
    because = f"{case.gpus.label} was not passed to the container" if closed else because
    said = (closed or lost)[0]
    return _unused_gpu(case, f"{because}: {said.text}", case.narrative.cite_remarks((said, idle[0])))


def requested_layers(case: CaseView) -> Found | None:
    """GPU layers were requested and none is there: only a build or driver without the GPU does that."""
    asked = case.runtime.placement.gpu_layers_set.get()
    said = [remark for remark in case.narrative.remarks_on(Topic.GPU_UNUSED) if _NO_USE_AT_ALL.search(remark.text)]
    by_hand = not case.engine.places_layers_itself and not case.narrative.blames_version
    if asked is None or asked < 1 or not said or not case.gpus.usable or not by_hand:
        return None
    because = f"{asked} layers were requested on {case.gpus.label}, but it is not used: {said[0].text}"
    return _unused_gpu(case, because, "runtime.placement.gpu_layers_set", said[0])


def said_by_person(case: CaseView) -> Found | Suspected:
    """What a user saw: output of a program is proof, an unused GPU or a missing library only a suspicion."""
    said = case.narrative.remarks_on(*_COMPLAINTS)
    printed = [remark for remark in said if _PRINTED.search(remark.text)]
    if printed and case.gpus.usable:
        because = f"the machine has {case.gpus.label}, but the runtime cannot use it: {printed[0].text}"
        return _unused_gpu(case, because, printed[0])
    if said:
        return Suspected(said[0].text, "runtime.placement.devices", "{sees_gpu}")
    if case.runtime.memory.vram_share.get() == 0 and case.gpus.usable:
        return Suspected("the whole model is on the CPU", "runtime.placement.devices", "{sees_gpu}")
    raise missing("whether the runtime sees the GPU", "{sees_gpu}, or {load_log}")


def _unused_gpu(case: CaseView, because: str, *shown_by: str | Remark | Citations) -> Found:
    """With what makes the GPU usable, as far as the reason is known."""
    room, refused = case.vram.free_bytes, case.runtime.placement.gpu_refused.get() or ""
    helps = next((words for reason, words in _HELP if reason.search(refused)), _INSTALL)
    if hidden := case.gpus.hiding_variables:
        helps = f"start it without {' and '.join(hidden)}, so that it sees the GPU"
    elif case.runtime.process.container.get():
        helps = "pass the GPU to the container, and use an image that is built for it"
    cure = Cure(vram_bytes=room) if room else None
    return finding(case, because, *shown_by, cure=cure, fixes=[Knob.GPU_BACKEND.to(None, helps)])


CAUSE = Cause(
    title="The GPU backend is not loaded",
    phase="decode",
    needs=all_of(
        "machine.gpus or runtime.placement.gpu_refused or runtime.memory.allocation_failure or "
        "machine.system.container or account.remarks",
        "runtime.placement.gpu_refused or runtime.placement.devices or runtime.memory.buffers or "
        "machine.gpus.0.processes or runtime.build.backends or runtime.placement.gpu_layers or "
        "runtime.memory.vram_share or runtime.memory.allocation_failure or runtime.process.environment or "
        "machine.system.container or account.remarks",
    ),
    routes=(
        Route("counted", cpu_on_purpose),
        Route("counted", integrated_gpu),
        Route("log", devices_of_runtime),
        Route("log", refusal),
        Route("log", loaded_backends),
        Route("counted", unreachable_gpu),
        Route("told", missing_library),
        Route("told", requested_layers),
        Route("told", said_by_person),
    ),
    fails_load=True,
    gpu_only=True,
    explains=("generic_cpu_build", "runtime_version_regressed"),
    ask="{sees_gpu}, and {gpu_list}",
)
