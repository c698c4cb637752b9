"""The machine has a GPU and the runtime does not use it, because its GPU backend is missing or could not start.

## Why it is slow
Everything runs on the CPU: a token reads all weights from RAM, ten to fifty times slower than from the GPU's memory.

Guides rank heat and settings before it, but among confirmed reports this is the most frequent cause, and none was
heat.

## How to confirm
llama.cpp lists no GPU (`--list-devices` says `(none)`; with `-lv 4` the device list holds only the CPU and no buffer
is on a GPU), or says why: `failed to initialize CUDA`, `no usable GPU found`. Ollama's log says `library=cpu`.

## What it is not
Load lines that are hidden: llama.cpp prints them only with `-lv 4` from build 9151 on, so their absence proves
nothing. Nor a setting that keeps all layers off the GPU on purpose.

## How to fix
Install the build for your GPU, its driver and libraries; pass the device on to a container; unset what hides it:
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

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.demand import missing
from unslow.think.case.gpus import device_of, is_integrated, unreached
from unslow.think.case.narrative import lost_since_a_version, places_layers_itself, remarks_on
from unslow.think.case.vram import buffers_of, free_vram_bytes, gpu_places, gpus_of, runtime_sees_gpu
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._facts import cite, cite_known, cite_remarks

_HIDES = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES"}
_HOST_BACKENDS = {"CPU", "BLAS", "RPC", "LLAMAFILE", "AMX"}
_NAMES_A_GPU = re.compile(
    r"/dev/(?:kfd|dri|nvidia)|amdgpu|permission|driver|devices? (?:was |were )?detected|gfx ?\d"
    r"|(?:rocm|cuda|vulkan) device",
    re.IGNORECASE,
)
_PRINTED = re.compile(
    r"is_available\(\)|\d\+cpu\b|:[\w.-]{0,30}-?cpu\b|device\(cpu|platform\W{1,3}cpu"
    r"|cpu[- ]only (?:build|wheel|torch|pytorch|binary|image)|initialize nvml"
    r"|(?:built|compiled) without (?:cuda|gpu|cublas|hip|rocm|vulkan|metal)",
    re.IGNORECASE,
)
"""Words of a program, or of the build itself, that settle it."""
_NO_USE_AT_ALL = re.compile(
    r"\bno gpu (?:offload|usage|use|activity|acceleration)|(?:only|100 ?%)[^.;]{0,10}\bcpu\b|\b(?:on|to) (?:the )?cpu\b"
    r"|gpu[^.;]{0,16}(?:not|n.t|never)[^.;]{0,8}(?:used|detected|found|recogni)"
    r"|(?:not|n.t)[^.;]{0,6}(?:use|using|find|detect)[^.;]{0,12}gpu",
    re.IGNORECASE,
)
_HELP = (
    (
        re.compile(r"driver.{0,20}too old|old CUDA driver|driver version is insufficient", re.IGNORECASE),
        "a newer driver of the GPU",
    ),
    (re.compile(r"integrated GPU|\biGPU\b"), "let it use the GPU of the processor, which it leaves out by default"),
    (
        re.compile(r"permission|denied|/dev/kfd|no ROCm-capable device", re.IGNORECASE),
        "a build for this GPU, with its driver, and the right to open it",
    ),
)
"""What lets a runtime use the GPU, by the reason that it gave."""
_COMPLAINTS = (Topic.GPU_UNUSED, Topic.GPU_LOST, Topic.GPU_LIBRARY_MISSING, Topic.CPU_ONLY_BUILD)


def check(case: Case) -> Found | Absent | Suspected:
    """See whether the runtime knows of any GPU."""
    if case.runtime.embedded:
        return Absent("the embedded engine has no GPU backend: it measures the CPU on purpose")
    if case.runtime.device_set.value_or("") == "none":
        return Absent("the GPU is switched off by a setting")
    # A processor's small GPU only shows pictures; of these, people compute on Apple's and on some of AMD's
    known = [device_of(gpu) for gpu in gpus_of(case)]
    small = known and all(device is None or device.vendor == "Intel" for device in known)
    if small and all(is_integrated(gpu) for gpu in gpus_of(case)):
        return Absent(f"{_gpu_name(case)} is a part of the processor, and would compute no faster than it")
    return first_to_decide(
        case, _by_devices, _by_refusal, _by_backends, _by_reach, _by_absent_library, _by_setting, _by_words, _unseen
    )


def _by_devices(case: Case) -> Found | Absent | None:
    """What the runtime lists, allocates and says of the GPU that the machine has."""
    sees = runtime_sees_gpu(case)
    if sees:
        return Absent("the runtime uses a GPU")
    if sees is None or not gpus_of(case):
        return None
    # What shows it where the runtime does not say why
    shown = "its weights lie in host memory" if buffers_of(case, "model", on_gpu=False) else "it holds no memory there"
    shown = "it lists no GPU" if isinstance(case.runtime.devices, Known) else shown
    why = case.runtime.gpu_refused.value_or(shown)
    for name in _hiding(case):
        why = f"{why}; {name}={case.runtime.environment.need()[name]!r} hides it"
    runtime, gpus = case.runtime, [f"machine.gpus.{place}" for place, _ in gpu_places(case)]
    there = cite_known(case, f"{gpus[0]}.name", f"{gpus[0]}.vendor", reference="a GPU is there")[:1]
    cited = cite_known(case, "runtime.gpu_refused")
    if isinstance(runtime.devices, Known):
        listed = ", ".join(d.name for d in runtime.devices.value) or "none"
        cited = (*cited, cite(case, "runtime.devices", "no GPU among them", listed))
    if isinstance(runtime.buffers, Known) and (host := buffers_of(case, "model", on_gpu=False)):
        held = f"{host[0].device} {host[0].bytes} bytes"
        cited = (*cited, cite(case, "runtime.buffers", "none on a GPU", held))
    # What each GPU holds, where that alone shows that the model is on none
    used = cite_known(case, *(f"{gpu}.vram_used_bytes" for gpu in gpus), reference="none of it the runtime's")
    because = f"the machine has {_gpu_name(case)}, and the runtime uses none: {why}"
    return _found(case, because, (*there, *(cited or used)))


def _by_refusal(case: Case) -> Found | Suspected | None:
    """Words of a driver or a runtime that could not get at a GPU, where nobody listed the machine's GPUs."""
    refused = case.runtime.gpu_refused
    if not isinstance(refused, Known) or isinstance(case.machine.gpus, Known):
        return None
    said = remarks_on(case, *_COMPLAINTS)
    if not said and not _NAMES_A_GPU.search(refused.value):
        return Suspected(refused.value, "machine.gpus", "{gpu_list}")
    because = f"the runtime could not get at the GPU: {refused.value}"
    return _found(case, because, (cite(case, "runtime.gpu_refused"), *cite_remarks(case, said[:1])))


def _by_backends(case: Case) -> Found | Suspected | None:
    """Only the CPU's backend was loaded: proof where somebody also sees an idle GPU, for a log may be cut short."""
    backends, listed = case.runtime.backends, isinstance(case.runtime.build_features, Known)
    if not isinstance(backends, Known) or not gpus_of(case) or not set(backends.value) <= _HOST_BACKENDS:
        return None
    said, names = remarks_on(case, *_COMPLAINTS), ", ".join(backends.value)
    # `system_info` lists them all, and the CPU's is loaded last; of other lines the paste may lack the one that matters
    listed = listed or (len(backends.value) > 1 and backends.value[-1] == "CPU")
    if not said or not listed:
        return Suspected(f"only {names} was loaded", "runtime.devices", CAUSE.ask)
    because = f"the machine has {_gpu_name(case)}, and the runtime loaded only {names}"
    shown = cite(case, "runtime.backends", "no GPU among them", names)
    return _found(case, because, (shown, *cite_remarks(case, said[:1])))


def _by_reach(case: Case) -> Found | None:
    """A GPU that this runtime has no way to, and somebody who sees the CPU at work or nothing but slowness."""
    lost = unreached(case)
    if lost is None or lost.by_architecture or lost_since_a_version(case):
        return None
    said = remarks_on(case, *_COMPLAINTS)
    because = f"the GPU is out of reach: {lost.why}"
    return _found(case, because, (cite(case, lost.fact), *cite_remarks(case, said[:1])))


def _by_absent_library(case: Case) -> Found | None:
    """A program printed that a file of the GPU's backend is not there, or the GPU went away from a running one."""
    absent, idle = remarks_on(case, Topic.GPU_LIBRARY_ABSENT), remarks_on(case, Topic.GPU_UNUSED)
    closed, lost = remarks_on(case, Topic.GPU_NOT_PASSED), remarks_on(case, Topic.GPU_LOST)
    if not gpus_of(case):
        return None
    if absent:
        because = f"the machine has {_gpu_name(case)}, and a library for it is missing: {absent[0].text}"
        return _found(case, because, cite_remarks(case, absent))
    if not idle or not (closed or lost):
        return None
    because = f"the runtime lost {_gpu_name(case)}, and computes with the CPU since"
    because = f"the container was not given {_gpu_name(case)}" if closed else because
    said = (closed or lost)[0]
    return _found(case, f"{because}: {said.text}", cite_remarks(case, (said, idle[0])))


def _by_setting(case: Case) -> Found | None:
    """Layers were asked for on the GPU, and none is there: only a build or a driver without it does that."""
    asked = case.runtime.gpu_layers_set.value_or(0)
    said = [remark for remark in remarks_on(case, Topic.GPU_UNUSED) if _NO_USE_AT_ALL.search(remark.text)]
    if asked < 1 or not said or not gpus_of(case) or places_layers_itself(case) or lost_since_a_version(case):
        return None
    because = f"{asked} layers were asked for on {_gpu_name(case)}, and it is not used: {said[0].text}"
    return _found(case, because, (cite(case, "runtime.gpu_layers_set"), *cite_remarks(case, said[:1])))


def _by_words(case: Case) -> Found | Suspected | None:
    """A GPU that is not used is a complaint, and a missing library is a guess; a program's own word is neither."""
    said = remarks_on(case, *_COMPLAINTS)
    printed = [remark for remark in said if _PRINTED.search(remark.text)]
    if printed and gpus_of(case):
        because = f"the machine has {_gpu_name(case)}, and the runtime can't use it: {printed[0].text}"
        return _found(case, because, cite_remarks(case, printed[:1]))
    if said:
        return Suspected(said[0].text, "runtime.devices", "{sees_gpu}")
    if case.runtime.vram_share.value_or(1.0) == 0 and gpus_of(case):
        return Suspected("the whole model is on the CPU", "runtime.devices", "{sees_gpu}")
    return None


def _unseen(_case: Case) -> None:
    raise missing("whether the runtime sees the GPU", "{sees_gpu}, or {load_log}")


def _gpu_name(case: Case) -> str:
    gpu = gpus_of(case)[0]
    vague = f"a GPU of {gpu.vendor.value}" if isinstance(gpu.vendor, Known) else "a GPU"
    return vague if gpu.name.value_or("GPU") == "GPU" else gpu.name.need()


def _found(case: Case, because: str, evidence: Citations) -> Found:
    """With what lets the runtime see the GPU, as far as it is known what keeps it from it."""
    room, refused = free_vram_bytes(case), case.runtime.gpu_refused.value_or("")
    helps = next((words for reason, words in _HELP if reason.search(refused)), "a build for this GPU, with its driver")
    if hidden := _hiding(case):
        helps = f"start it without {' and '.join(hidden)}, so that the GPU is seen"
    elif case.runtime.container.value_or(""):
        helps = "hand the GPU on to the container, with an image that is built for it"
    cure = Cure(vram_bytes=room) if room else None
    return Found(because, evidence, cure, (Remedy(Knob.GPU_BACKEND.to(None, helps), cure),))


def _hiding(case: Case) -> list[str]:
    """Variables of the runtime that hide every GPU."""
    given = case.runtime.environment.value_or({})
    return sorted(name for name in given if name in _HIDES and given[name].strip() in ("", "-1"))


CAUSE = Cause(
    title="The GPU backend is not loaded",
    phase="decode",
    needs=(
        (
            "machine.gpus",
            "runtime.gpu_refused",
            "runtime.allocation_failure",
            "machine.system.container",
            "account.remarks",
        ),
        (
            "runtime.gpu_refused",
            "runtime.devices",
            "runtime.buffers",
            "machine.gpus.0.processes",
            "runtime.backends",
            "runtime.gpu_layers",
            "runtime.vram_share",
            "runtime.allocation_failure",
            "runtime.environment",
            "machine.system.container",
            "account.remarks",
        ),
    ),
    check=check,
    fails_load=True,
    gpu_only=True,
    explains=("generic_cpu_build", "runtime_version_regressed"),
    ask="{sees_gpu}, and {gpu_list}",
)
