"""The model needs more of a shared memory than the GPU may use, or than is left beside everything else.

## Why it is slow
GPU and CPU of a Mac share one memory, and macOS lets the GPU wire down about two thirds to three quarters of it. A
model beyond that limit, or one that leaves too little for the rest, is paged and compressed while it runs: a token
takes seconds instead of milliseconds, often without any error.

Guides say that unified memory has no ceiling to worry about, but of 32 GiB the GPU may use about 21.

## How to confirm
Weights and KV cache exceed the limit (`recommendedMaxWorkingSetSize` in the log; `sysctl iogpu.wired_limit_mb`, where
0 stands for the usual two thirds to three quarters), or memory pressure is yellow or red and swap grows while tokens
are generated.

## What it is not
Plenty of free memory, or swap that is in use but idle.

## How to fix
A smaller quant or model, a shorter context, fewer other programs; where there is room, a higher limit:
- macOS: `sudo sysctl iogpu.wired_limit_mb=28672` of 32 GiB, and leave the system at least 4 to 8 GiB
- llama.cpp: `-c 8192`, `-ctk q8_0 -ctv q8_0`; Ollama: `num_ctx 8192`; LM Studio: a shorter context
- MLX: a 4-bit model, a smaller `--prompt-cache-size` of the server; Transformers: a smaller model in 16 bits
- vLLM on a GPU that shares its memory: a lower `--gpu-memory-utilization`
- AMD and Intel with shared memory: more for the GPU in the firmware, or a larger `ttm.pages_limit` of Linux

## Safety
A limit that is too high can freeze the machine. It returns to its default after a restart.
"""

import re

from unslow.facts.account import Remark, Topic
from unslow.facts.values import GIB, Known, Origin
from unslow.think.case.host import LARGE_SHARE
from unslow.think.case.narrative import amount_bytes
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding
from unslow.think.plan.free_memory import shared_memory_cure, shared_memory_remedies
from unslow.think.report import Evidence

_SAID = ("machine.memory.wired_limit_bytes", "runtime.memory.available_bytes")
NEWER_SYSTEMS = 1.1  # Times the share that every macOS gives: newer ones give up to this, where the limit is unknown
FILLED = 0.7  # Of the memory: what a process must have grown to before swap is its doing
_LIMIT = re.compile(r"wired limit|wired_limit|working set|memory pressure", re.IGNORECASE)
_FULL = re.compile(r"\b(?:9\d|100) ?%")
_EXCEEDED = re.compile(r"greater than the recommended max working set", re.IGNORECASE)
_PRESSED = re.compile(
    r"memory pressure[^.;]{0,12}\b(?:high|red|yellow|critical)|\b(?:high|heavy|red|yellow|critical) memory pressure",
    re.IGNORECASE,
)
_PAGED = re.compile(r"swap|thrash|\bpag(?:e|ing)|compress|red\b|yellow|critical", re.IGNORECASE)


def separate_memory(case: CaseView) -> Absent | None:
    """Whether a GPU shares the host's memory at all."""
    return None if case.gpus.is_unified else Absent("no GPU here shares the host's memory")


def memory_pressure(case: CaseView) -> Found | None:
    """The system's own memory pressure, with a model large enough to cause it."""
    memory = case.machine.memory
    pressure, swap = memory.pressure.get(), memory.swap_used_bytes.get()
    if pressure in {None, "normal"} or case.host.model_is_large is False:
        return None
    swapped = f", {swap / GIB:.1f} GiB swapped" if swap is not None else ""
    because = f"memory pressure is {pressure} while the model is loaded{swapped}"
    return _too_small(case, because, "machine.memory.pressure")


def compressed_memory(case: CaseView) -> Found | Suspected | None:
    """How much is in the memory compressor: of a large model, every token has to unpack it."""
    packed, pressure = case.host.compressed_bytes, case.machine.memory.pressure.get()
    total, is_large = case.machine.memory.total_bytes.get(), case.host.model_is_large
    if packed is None:
        return None
    words = f"{packed / GIB:.1f} GiB are in the memory compressor"
    is_most = total is not None and packed >= LARGE_SHARE * total > 0 and pressure != "normal"
    if is_large or is_most or (is_large is None and pressure not in {None, "normal"}):
        return _too_small(case, f"{words}, and every token has to fetch them", "machine.memory.compressed_bytes")
    decides = "machine.memory.pressure" if is_large is False else "model.weights_bytes"
    return None if pressure == "normal" else Suspected(words, decides, CAUSE.ask)


def warning_of_metal(case: CaseView) -> Found | None:
    """Metal's own warning that more was allocated than it keeps within reach of the GPU."""
    warned = next((line for line in case.engine.warnings if _EXCEEDED.search(line)), "")
    because = f"the model is larger than the GPU's share of the memory: {warned}"
    return _too_small(case, because, "runtime.history.warnings") if warned else None


def demand_against_limit(case: CaseView) -> Found | Absent | Suspected | None:
    """What the model needs, against what the GPU may use."""
    (asked, what), (limit, whose) = case.memory.asked_of_gpu, case.vram.shared_limit
    if not asked or not limit:
        return None
    sizes = f"{asked / GIB:.1f} GiB needed, {limit / GIB:.1f} GiB for the GPU"
    weights = case.model.weights_bytes
    is_guess = isinstance(weights, Known) and weights.origin in (Origin.ESTIMATED, Origin.TOLD)
    is_sure = whose in _SAID or isinstance(case.runtime.memory.asked_bytes, Known) or not is_guess
    if asked <= limit * (1.0 if is_sure else NEWER_SYSTEMS):
        return Absent(f"it fits: {sizes}") if isinstance(case.machine.memory.pressure, Known) else None
    if not case.narrative.tells_only_of_slowness:  # it ran well before with the same memory
        return Suspected(f"it hardly fits: {sizes}", "machine.memory.pressure", CAUSE.ask)
    because = f"the model needs more memory than the GPU may use: {sizes}"
    return _too_small(case, because, case.cite(what, f"{limit / GIB:.1f} GiB for the GPU"), whose)


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """A person who saw the memory fill up, or gigabytes go to swap; "working set" alone does not count."""
    said, total = case.narrative.remarks_on(Topic.SWAPPING), case.machine.memory.total_bytes.get()
    if not said:
        return None
    # The largest amount of memory that a remark, the process or the model's size names
    weights, resident = case.memory.weights_bytes, case.runtime.process.resident_bytes.get()
    told = [amount_bytes(remark.text) for remark in case.account.remarks.need()]
    is_filled = total and max(weights, resident or 0, *told) >= FILLED * total
    # A full memory alone is how macOS uses it
    is_limited = any(_LIMIT.search(r.text) for r in said) or total is None or not 0 < weights < LARGE_SHARE * total
    seen = [
        remark
        for remark in said
        if (is_limited and _FULL.search(remark.text))
        or _PRESSED.search(remark.text)
        or (_PAGED.search(remark.text) and (is_filled or amount_bytes(remark.text)))
    ]
    if not seen:
        return Suspected(said[0].text, "machine.memory.pressure", CAUSE.ask)
    return _too_small(case, f"the memory is too small for the model: {seen[0].text}", *seen)


def _too_small(case: CaseView, because: str, *shown: str | Evidence | Remark) -> Found:
    cure, fixes = shared_memory_cure(case), shared_memory_remedies(case)
    return finding(case, because, *shown, cure=cure, fixes=fixes)


CAUSE = Cause(
    title="The shared memory of GPU and CPU is too small",
    phase="decode",
    needs=all_of(
        "runtime.memory.asked_bytes or model.weights_bytes or runtime.memory.buffers or runtime.history.warnings or "
        "machine.memory.pressure or account.remarks",
        "machine.system.name or machine.cpu.model or machine.gpus or machine.memory.wired_limit_bytes or runtime.name",
    ),
    routes=(
        Route("counted", separate_memory),
        Route("measured", memory_pressure),
        Route("measured", compressed_memory),
        Route("log", warning_of_metal),
        Route("counted", demand_against_limit),
        Route("told", said_by_person),
    ),
    fails_load=True,
    explains=(
        "swapping",
        "weights_spill_to_ram",
        "weights_streamed_from_disk",
        "context_larger_than_needed",
        "model_outside_envelope",
    ),
    ask="{gpu_memory}; {swap}; and {model_size}",
)
