"""The GPU backend was built without code for this GPU.

## Why it is slow
A GPU runs only code that was compiled for its architecture. A build, or a ROCm or CUDA library, without such code skips
the GPU, and the CPU computes everything.

## How to confirm
The log says it: `gfx1010 ... not supported`, `hipErrorNoBinaryForGpu`, `rocBLAS error: Cannot read ...
TensileLibrary`, `no kernel image is available`, `compute capability 3.5 ... too old`. Or the list of architectures in
`system_info` (`CUDA : ARCHS = ...`) has none that this GPU can run. With several GPUs each one needs code: llama.cpp
uses all that it sees, and one without code ends the load.

## What it is not
A GPU that the build supports but could not open: a missing driver, library or permission is `gpu_backend_not_loaded`.
Nor a warning about a second, older GPU that was not meant to be used.

## How to fix
Use a build or version that has the architecture, or a backend that needs no list (Vulkan):
- llama.cpp: build it with `-DCMAKE_CUDA_ARCHITECTURES=native` or `-DGPU_TARGETS=gfx1010`; or use the Vulkan build; a
  build for CUDA 12 where the GPU is older than Turing (7.5), for which CUDA 13 has no code
- a second, older GPU: exclude it with `--device CUDA0`, or `CUDA_VISIBLE_DEVICES=0` for any runtime
- Ollama: `HSA_OVERRIDE_GFX_VERSION=10.3.0` for AMD GPUs close to a supported one; `OLLAMA_VULKAN=1`; NVIDIA
  driver 570 or newer
- LM Studio: `lms runtime select` the Vulkan engine
- vLLM, Transformers: a PyTorch wheel whose `torch.cuda.get_arch_list()` has this GPU

## Safety
Answers do not change beyond rounding. An override to a wrong architecture can crash the runtime.
"""

import re

from unslow.facts.account import Remark, Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known, first_known
from unslow.think.case.cure import Cure
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.report import Evidence

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


def log_line(case: CaseView) -> Found | None:
    """A line of the log that says so; a warning beside several GPUs of which one computes is about another one."""
    paths = ("runtime.placement.gpu_refused", "runtime.memory.load_error")
    lines = [(path, case.fact(path).get() or "") for path in paths]
    if len(case.gpus.usable) < 2 or not _computes(case):  # noqa: PLR2004 (several)
        lines += [("runtime.history.warnings", line) for line in case.engine.warnings]
    fact, line = next(((fact, line) for fact, line in lines if _UNSUPPORTED.search(line)), ("", ""))
    return (
        _lacking_code(case, f"the runtime has no code for this GPU: {line}", case.cite(fact, words=line))
        if line
        else None
    )


def failed_allocation(case: CaseView) -> Absent | None:
    """A GPU on which an allocation failed had been initialized before."""
    return Absent("the GPU was initialized, but ran out of memory") if case.vram.allocation_failed else None


def architectures_of_build(case: CaseView) -> Found | Absent | None:
    """The architectures that the build has code for, against each GPU that the runtime may use."""
    cards = case.gpus.cards
    # Weights on a GPU show that it computes, unless the load failed: they are copied before any code runs
    if cards and case.vram.buffers("model", on_gpu=True) and case.runtime.state.get() != "failed":
        return Absent("the GPU computes")
    lacking, able = [card for card in cards if card.runs is False], [card for card in cards if card.runs]
    if not lacking:
        names = ", ".join(dict.fromkeys(card.own for card in able))
        return Absent(f"the build has code for {names}") if able and len(able) == len(cards) else None
    if len(lacking) < len(cards) and not case.gpus.visible_to_runtime:  # the others are unused for another reason
        return Absent(f"the build has code for {able[0].own}, but does not use that GPU either") if able else None
    card, targets = lacking[0], ", ".join(case.runtime.build.architectures.need())
    name = (card.gpu.name.get() or f"GPU {card.gpu.index}") if len(cards) > 1 else "the GPU"
    because = f"the build has code for {targets}, but {name} is {card.own}"
    shown_by = case.cite("runtime.build.architectures", card.own), f"machine.gpus.{card.place}.{card.fact}"
    # What the runtime calls the others, such as CUDA0, where it lists each of them
    seen, usable = case.gpus.seen_by_runtime, [card.gpu for card in able]
    alike = [(device.name, case.gpus.named_by([device], seen, case.gpus.usable)) for device in seen]
    devices = [own for own, found in alike if found and all(gpu in usable for gpu in found)]
    if not devices or len(devices) != len(able):
        return _lacking_code(case, because, *shown_by)
    room = sum(first_known(c.gpu.vram_free_bytes, c.gpu.vram_total_bytes).get() or 0 for c in able)
    change = Knob.DEVICE.to(",".join(devices), f"exclude {name}, for which the build has no code")
    return _lacking_code(case, because, *shown_by, before=(Remedy(change, Cure(vram_bytes=room) if room else None),))


def gpu_without_code(case: CaseView) -> Found | None:
    """A GPU that the libraries are known to have no code for, beside a CPU that computes."""
    lost, idle = case.gpus.unreachable, case.narrative.remarks_on(Topic.GPU_UNUSED)
    if lost is None or not lost.by_architecture or not (idle or case.runtime.memory.vram_share.get() == 0):
        return None
    return _lacking_code(case, lost.why, lost.fact, idle[0] if idle else "runtime.memory.vram_share")


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """A driver's own words are proof whoever quotes them; "not supported" may be a guess."""
    said = case.narrative.remarks_on(Topic.GPU_NOT_SUPPORTED)
    printed = next((remark for remark in said if _PRINTED.search(remark.text)), None)
    if printed:
        return _lacking_code(case, f"the runtime has no code for this GPU: {printed.text}", printed)
    return Suspected(said[0].text, "runtime.placement.gpu_refused", CAUSE.ask) if said else None


def other_refusal(case: CaseView) -> Absent | None:
    """A driver that gives another reason did not get as far as the code."""
    refused = case.runtime.placement.gpu_refused
    return Absent(f"the GPU was refused for another reason: {refused.value}") if isinstance(refused, Known) else None


def gpu_in_use(case: CaseView) -> Absent | None:
    """A GPU that holds the model of a runtime whose decode speed was measured."""
    return Absent("the GPU computes") if _computes(case) else None


def _computes(case: CaseView) -> bool:
    is_timed = isinstance(case.speed.measured_rate, Known) and not case.narrative.is_report
    held = case.vram.buffers("model", on_gpu=True) or case.gpus.holding_model or case.runtime.placement.gpu_layers.get()
    return bool(held) and is_timed and case.runtime.state.get() != "failed"


def _lacking_code(
    case: CaseView, because: str, *shown_by: str | Remark | Evidence, before: tuple[Remedy, ...] = ()
) -> Found:
    room = case.vram.free_bytes
    why = "use a build or version with code for this GPU, or a backend that needs none: Vulkan"
    cure = Cure(vram_bytes=room) if room else None
    return finding(case, because, *shown_by, cure=cure, fixes=[*before, Knob.GPU_BACKEND.to(None, why)])


CAUSE = Cause(
    title="The build has no code for this GPU",
    phase="decode",
    needs=all_of(
        "runtime.placement.gpu_refused or runtime.history.warnings or runtime.memory.load_error or "
        "runtime.build.architectures or runtime.memory.vram_share or runtime.memory.allocation_failure or "
        "runtime.memory.buffers or runtime.placement.gpu_layers or machine.gpus.0.processes or account.remarks"
    ),
    routes=(
        Route("log", log_line),
        Route("log", failed_allocation),
        Route("counted", architectures_of_build),
        Route("counted", gpu_without_code),
        Route("told", said_by_person),
        Route("log", other_refusal),
        Route("measured", gpu_in_use),
    ),
    fails_load=True,
    explains=("gpu_backend_not_loaded",),
    gpu_only=True,
    ask="{load_log}, and {gpu_architecture}",
)
