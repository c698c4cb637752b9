"""The GPU backend was built without code for this GPU.

## Why it is slow
A GPU runs only code that was compiled for its architecture. A build, or a ROCm or CUDA library, without it leaves the
GPU out, and the CPU computes everything.

## How to confirm
The log names it: `gfx1010 ... not supported`, `hipErrorNoBinaryForGpu`, `rocBLAS error: Cannot read ...
TensileLibrary`, `no kernel image is available`, `compute capability 3.5 ... too old`. Or the list of architectures in
`system_info` (`CUDA : ARCHS = ...`) has none that this GPU can run. Of several GPUs each needs code: llama.cpp takes
all that it sees, and one without code ends the load.

## What it is not
A GPU that the build knows and could not reach: a missing driver, library or permission is `gpu_backend_not_loaded`. A
warning about a second, older GPU that nobody meant to use is no fault either.

## How to fix
Take a build or version that has the architecture, or a backend that needs no list (Vulkan):
- llama.cpp: build it with `-DCMAKE_CUDA_ARCHITECTURES=native` or `-DGPU_TARGETS=gfx1010`; or take the Vulkan build; a
  build for CUDA 12 where the GPU is older than Turing (7.5), for which CUDA 13 has no code
- a second, older GPU: leave it out with `--device CUDA0`, or `CUDA_VISIBLE_DEVICES=0` for any runtime
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
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.gpus import cards_of, names_of, unreached
from unslow.think.case.narrative import is_report, remarks_on
from unslow.think.case.prediction import measured_rate
from unslow.think.case.vram import buffers_of, failed_on_gpu, free_vram_bytes, gpus_held, gpus_of, runtime_sees_gpu
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import cite, cite_remarks

_UNSUPPORTED = re.compile(
    r"no kernel image is available|invalid device function|unsupported (?:gpu|amd|radeon|gfx|arch|compute|device)"
    r"|hipErrorNoBinaryForGpu|hipErrorInvalidDeviceFunction|unable to find code object|no (?:compatible )?code object"
    r"|tensilelibrary|hipErrorInvalidImage|cudaErrorNoKernelImageForDevice"
    r"|(?:gfx\w{1,12}|amdgpu|gpu|compute capability|architecture)[^.;]{0,60}(?:not supported|unsupported|too old)"
    r"|not compatible with the current pytorch|supported_types="
    r"|no rocblas support for gfx|compute capability not in compiled architectures",
    re.IGNORECASE,
)
_PRINTED = re.compile(
    r"no kernel image is available|invalid device function|not compatible with the current pytorch|compute capability "
    r"\d\.\d[^.;]{0,40}(?:not supported|too old|minimum)|\bgfx\d{3,4}\w?\b[^;]{0,60}(?:not supported|unsupported)"
    r"|tensilelibrary|hipErrorNoBinaryForGpu|unable to find code object",
    re.IGNORECASE,
)


def _by_log(case: Case) -> Found | None:
    # Lines that may name it; a warning is none where one of several GPUs computes: it is about another
    about_another = len(gpus_of(case)) > 1 and _is_used(case)
    said = {name: [getattr(case.runtime, name).value_or("")] for name in ("gpu_refused", "load_error")}
    for fact, lines in (said if about_another else {**said, "warnings": case.runtime.warnings.value_or([])}).items():
        line = next((line for line in lines if _UNSUPPORTED.search(line)), None)
        if line:
            evidence = (cite(case, f"runtime.{fact}", words=line),)
            return _found(case, f"the runtime has no code for this GPU: {line}", evidence)
    return None


def _by_failure(case: Case) -> Absent | None:
    """A GPU on which memory was asked for had been set up before that."""
    return Absent("the GPU was set up: it was memory that it lacked") if failed_on_gpu(case) else None


def _by_use(case: Case) -> Absent | None:
    """A GPU that holds the model of a runtime which was seen to answer."""
    return Absent("the GPU computes") if _is_used(case) else None


def _is_used(case: Case) -> bool:
    holds = buffers_of(case, "model", on_gpu=True) or gpus_held(case) or case.runtime.gpu_layers.value_or(0) > 0
    failed = case.runtime.state.value_or("") == "failed"
    answers = isinstance(measured_rate(case), Known) and not is_report(case) and not failed
    return bool(holds) and answers


def _by_build(case: Case) -> Found | Absent | None:
    """By the list of architectures, for each GPU that the runtime may use.

    Weights on a GPU show that it computes, unless the load failed: they are copied before any code runs.
    """
    cards = cards_of(case)
    if cards and buffers_of(case, "model", on_gpu=True) and case.runtime.state.value_or("") != "failed":
        return Absent("the GPU computes")
    lacking, able = [card for card in cards if card.runs is False], [card for card in cards if card.runs]
    if not lacking:
        names = ", ".join(dict.fromkeys(card.own for card in able))
        return Absent(f"the build has code for {names}") if able and len(able) == len(cards) else None
    if len(lacking) < len(cards) and not runtime_sees_gpu(case):  # another GPU is left out for another reason
        return Absent(f"the build has code for {able[0].own}, and does not use that GPU either") if able else None
    card, targets = lacking[0], ", ".join(case.runtime.build_architectures.need())
    name = card.gpu.name.value_or(f"GPU {card.gpu.index}") if len(cards) > 1 else "the GPU"
    evidence = (
        cite(case, "runtime.build_architectures", card.own),
        cite(case, f"machine.gpus.{card.place}.{card.fact}"),
    )
    found = _found(case, f"the build has code for {targets}, and {name} is {card.own}", evidence)
    devices = names_of(case, able)
    if not devices:
        return found
    # The GPUs for which there is code, alone, where the runtime has names for them
    room = sum(card.gpu.vram_free_bytes.value_or(card.gpu.vram_total_bytes.value_or(0)) for card in able)
    change = Knob.DEVICE.to(",".join(devices), f"leave {name} out, for which there is no code")
    without = Remedy(change, Cure(vram_bytes=room) if room else None)
    return found._replace(remedies=(without, *found.remedies))


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


def _found(case: Case, because: str, evidence: Citations) -> Found:
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
    check=check_by(_by_log, _by_failure, _by_build, _by_card, _by_words, _by_other_refusal, _by_use),
    fails_load=True,
    explains=("gpu_backend_not_loaded",),
    gpu_only=True,
    ask="{load_log}, and {gpu_architecture}",
)
