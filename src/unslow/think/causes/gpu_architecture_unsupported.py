"""The GPU backend was built without code for this GPU.

## Why it is slow
A GPU runs only code that was compiled for its architecture. A build, or a ROCm or CUDA library, without it leaves the
GPU out, and the CPU computes everything.

## How to confirm
The log names it: `gfx1010 ... not supported`, `hipErrorNoBinaryForGpu`, `rocBLAS error: Cannot read ...
TensileLibrary`, `no kernel image is available`, `compute capability 3.5 ... too old`. Or the list of architectures in
`system_info` (`CUDA : ARCHS = ...`) has none that this GPU can run.

## What it is not
A GPU that the build knows and could not reach: a missing driver, library or permission is `gpu_backend_not_loaded`. A
warning about a second, older GPU that nobody meant to use is no fault either.

## How to fix
Take a build or version that has the architecture, or a backend that needs no list (Vulkan):
- llama.cpp: build it with `-DCMAKE_CUDA_ARCHITECTURES=native` or `-DGPU_TARGETS=gfx1010`; or take the Vulkan build
- Ollama: `HSA_OVERRIDE_GFX_VERSION=10.3.0` for AMD GPUs close to a supported one; `OLLAMA_VULKAN=1`; an NVIDIA driver
  of 570 or newer
- LM Studio: `lms runtime select` the Vulkan engine
- vLLM, Transformers: a PyTorch wheel whose `torch.cuda.get_arch_list()` has this GPU

## Safety
Answers do not change beyond rounding. An override to a wrong architecture can crash the runtime.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import remarks_on
from unslow.think.adapt.experiments import is_report
from unslow.think.adapt.gpu_reach import unreached
from unslow.think.adapt.vram import buffers_of, failed_on_gpu, free_vram_bytes, gpu_places, gpus_held, gpus_of
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._routes import cite_remarks, first_to_decide
from unslow.think.predict import measured_rate
from unslow.think.report import Evidence

_UNSUPPORTED = re.compile(
    r"no kernel image is available|invalid device function|unsupported (?:gpu|amd|radeon|gfx|arch|compute|device)"
    r"|hipErrorNoBinaryForGpu|hipErrorInvalidDeviceFunction|unable to find code object|no (?:compatible )?code object"
    r"|tensilelibrary|hipErrorInvalidImage|cudaErrorNoKernelImageForDevice"
    r"|(?:gfx\w+|amdgpu|gpu|compute capability|architecture)[^.;]{0,60}(?:not supported|unsupported|too old)"
    r"|not compatible with the current pytorch|supported_types=",
    re.IGNORECASE,
)
_PRINTED = re.compile(
    r"no kernel image is available|invalid device function|not compatible with the current pytorch|compute capability "
    r"\d\.\d[^.;]{0,40}(?:not supported|too old|minimum)|\bgfx\d{3,4}\w?\b[^;]{0,60}(?:not supported|unsupported)"
    r"|tensilelibrary|hipErrorNoBinaryForGpu|unable to find code object",
    re.IGNORECASE,
)
_OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"


def check(case: Case) -> Found | Absent | Suspected:
    """Look for the refusal in the log, else hold the architectures of the build against the GPU's own."""
    return first_to_decide(case, _by_log, _by_failure, _by_build, _by_card, _by_words, _by_other_refusal, _by_use)


def _by_log(case: Case) -> Found | None:
    for fact, lines in _complaints(case):
        line = next((line for line in lines if _UNSUPPORTED.search(line)), None)
        if line:
            known = getattr(case.runtime, fact)
            evidence = Evidence(
                fact=f"runtime.{fact}", value=line, reference=None, origin=str(known.origin), source=known.source
            )
            return _found(case, f"the runtime has no code for this GPU: {line}", (evidence,))
    return None


def _complaints(case: Case) -> list[tuple[str, list[str]]]:
    runtime = case.runtime
    single = [(name, [getattr(runtime, name).value_or("")]) for name in ("gpu_refused", "load_error")]
    return [*single, ("warnings", runtime.warnings.value_or([]))]


def _by_failure(case: Case) -> Absent | None:
    """A GPU on which memory was asked for had been set up before that."""
    return Absent("the GPU was set up: it was memory that it lacked") if failed_on_gpu(case) else None


def _by_use(case: Case) -> Absent | None:
    """A GPU that holds the model of a runtime which was seen to answer."""
    holds = buffers_of(case, "model", on_gpu=True) or gpus_held(case) or case.runtime.gpu_layers.value_or(0) > 0
    answers = isinstance(measured_rate(case), Known) and not is_report(case)
    return Absent("the GPU computes") if holds and answers else None


def _by_build(case: Case) -> Found | Absent | None:
    """By the list of architectures: newer GPUs may still run what is compiled at load, older ones never."""
    built = case.runtime.build_architectures
    if not isinstance(built, Known) or not built.value or not gpus_of(case):
        return None
    place, gpu = gpu_places(case)[0]
    if buffers_of(case, "model", on_gpu=True):
        return Absent("the GPU computes")
    own, fact = _architecture(gpu)
    if not own or (own.startswith("gfx") and _OVERRIDE in case.runtime.environment.value_or({})):
        return None
    if _runs(own, built.value):
        return Absent(f"the build has code for {own}")
    evidence = (cite(case, "runtime.build_architectures", own), cite(case, f"machine.gpus.{place}.{fact}"))
    return _found(case, f"the build has code for {', '.join(built.value)}, and the GPU is {own}", evidence)


def _architecture(gpu: Gpu) -> tuple[str, str]:
    if isinstance(gpu.compute_capability, Known):
        return gpu.compute_capability.value, "compute_capability"
    return gpu.architecture.value_or(""), "architecture"


def _runs(own: str, built: list[str]) -> bool:
    """Whether any of the build's architectures runs on it: gfx targets must match, CUDA's must not be newer."""
    if own.startswith("gfx"):
        return own in {target.split(":")[0] for target in built}
    digits = [int(found[0]) for found in (re.search(r"\d+", target) for target in built) if found]
    capability = re.fullmatch(r"(\d{1,2})\.(\d)", own)
    return not digits or not capability or min(digits) <= int(capability[1] + capability[2]) * _scale(digits)


def _scale(digits: list[int]) -> int:
    """llama.cpp writes 8.6 as 860, others as 86."""
    return 10 if min(digits) >= 300 else 1  # noqa: PLR2004 (no CUDA GPU is older than 3.0, none yet is 30.0)


def _by_card(case: Case) -> Found | None:
    """A card that the libraries are known to have no code for, and a CPU that is seen to compute."""
    lost, idle = unreached(case), remarks_on(case, Topic.GPU_UNUSED)
    if lost is None or not lost.by_architecture or not (idle or case.runtime.vram_share.value_or(1.0) == 0):
        return None
    shown = () if idle else (cite(case, "runtime.vram_share"),)
    return _found(case, lost.why, (cite(case, lost.fact), *shown, *cite_remarks(case, idle[:1])))


def _by_words(case: Case) -> Found | Suspected | None:
    """A driver's own words are proof whoever repeats them; "not supported" may be a guess."""
    said = remarks_on(case, Topic.GPU_NOT_SUPPORTED)
    printed = [remark for remark in said if _PRINTED.search(remark.text)]
    if printed:
        return _found(case, f"the runtime has no code for this GPU: {printed[0].text}", cite_remarks(case, printed[:1]))
    return Suspected(said[0].text, "runtime.gpu_refused", CAUSE.ask) if said else None


def _by_other_refusal(case: Case) -> Absent | None:
    """A driver that names another reason did not get as far as the code."""
    refused = case.runtime.gpu_refused
    return Absent(f"the GPU was refused for another reason: {refused.value}") if isinstance(refused, Known) else None


def _found(case: Case, because: str, evidence: tuple[Evidence, ...]) -> Found:
    room = free_vram_bytes(case)
    change = Knob.GPU_BACKEND.to(
        None, "a build or version with code for this GPU, or a backend that needs none: Vulkan"
    )
    cure = Cure(vram_bytes=room) if room else None
    return Found(because, evidence, cure, (Remedy(change, cure),))


CAUSE = Cause(
    title="The build has no code for this GPU",
    phase="decode",
    needs=(
        (
            "runtime.gpu_refused",
            "runtime.warnings",
            "runtime.load_error",
            "runtime.build_architectures",
            "runtime.vram_share",
            "runtime.allocation_failure",
            "runtime.buffers",
            "runtime.gpu_layers",
            "machine.gpus.0.processes",
            "account.remarks",
        ),
    ),
    check=check,
    fails_load=True,
    explains=("gpu_backend_not_loaded",),
    gpu_only=True,
    ask="{load_log}, and {gpu_architecture}",
)
