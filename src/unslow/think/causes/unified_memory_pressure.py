"""The model asks for more of a shared memory than the GPU may have, or than is left beside everything else.

## Why it is slow
GPU and CPU of a Mac share one memory, and macOS lets the GPU wire down about two thirds to three quarters of it. A
model beyond that limit, or one that leaves too little for the rest, is paged and compressed while it runs: tokens come
in seconds instead of milliseconds, often without any error.

Guides say that unified memory has no ceiling to worry about, but of 32 GiB the GPU may have about 21.

## How to confirm
Weights and KV cache exceed the limit (`recommendedMaxWorkingSetSize` in the log; `sysctl iogpu.wired_limit_mb`, where
0 stands for the usual two thirds to three quarters), or memory pressure is yellow or red and swap grows while tokens
are generated.

## What it is not
Plenty of memory free, or swap that is in use but still.

## How to fix
A smaller quant or model, a shorter context, fewer other programs; where there is room, a higher limit:
- macOS: `sudo sysctl iogpu.wired_limit_mb=28672` of 32 GiB, and leave the system at least 4 to 8 GiB
- llama.cpp: `-c 8192`, `-ctk q8_0 -ctv q8_0`; Ollama: `num_ctx 8192`; LM Studio: a shorter context
- MLX: a 4-bit model, a smaller `--prompt-cache-size` of the server; Transformers: a smaller model in 16 bits
- vLLM on a GPU that shares its memory: a lower `--gpu-memory-utilization`
- AMD and Intel with shared memory: more of it for the GPU in the firmware, or a larger `ttm.pages_limit` of Linux

## Safety
A limit that is too high can freeze the machine. It is back to its default after a restart.
"""

import re

from unslow.catalog.hardware_families import unified_memory
from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, Known, Origin
from unslow.think.case.demand import kv_per_token
from unslow.think.case.gpus import is_unified, unified_limit_bytes
from unslow.think.case.narrative import amount_bytes, remarks_on, tells_only_of_slowness
from unslow.think.case.placement import seen_split
from unslow.think.case.vram import buffers_of, compute_bytes, is_gpu, margin_bytes
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._facts import cite, cite_remarks

LARGE_SHARE = 0.5  # Of the memory: a model that is smaller is not what the pressure comes from
_SAID = ("machine.memory.wired_limit_bytes", "runtime.available_bytes")
NEWER_SYSTEMS = 1.1
"""Times the share that every macOS gives: so much more do newer ones, where nobody says what the limit is."""
_LIMIT = re.compile(r"wired limit|wired_limit|working set|memory pressure", re.IGNORECASE)
_FULL = re.compile(r"\b(?:9\d|100) ?%")
_EXCEEDED = re.compile(r"greater than the recommended max working set", re.IGNORECASE)
_PRESSED = re.compile(
    r"memory pressure[^.;]{0,12}\b(?:high|red|yellow|critical)|\b(?:high|heavy|red|yellow|critical) memory pressure",
    re.IGNORECASE,
)
LEAST_PACKED, PACKED_SHARE = 4 * GIB, 0.2
"""In the compressor, of a Mac that is in trouble: a healthy one keeps a few gigabytes there."""
LEAST_LEFT, LEFT_SHARE = 4 * GIB, 1 / 8  # What macOS and its programs need beside a model, at least
BESIDE_IT = 1.05  # Times what the model asks for: the GPU keeps small things of others as well
SHORTEST_USEFUL, _STEP = 4096, 1024  # Tokens: enough for a chat, and an advice in round numbers
FILLED = 0.7  # Of the memory: what a process must have grown to before swap is its doing
_MAY_FREEZE = "too high a limit can freeze the machine"
_PAGED = re.compile(r"swap|thrash|\bpag(?:e|ing)|compress|red\b|yellow|critical", re.IGNORECASE)


def check(case: Case) -> Found | Absent | Suspected:
    """Hold what the model takes against what the GPU may have, and look for pressure."""
    if not is_unified(case):
        return Absent("no GPU here shares the memory of the host")
    return first_to_decide(case, _by_pressure, _by_compressor, _by_warning, _by_limit, _by_words)


def _by_warning(case: Case) -> Found | None:
    """Metal's own word that more was allocated than it may keep in reach of the GPU."""
    warned = next((line for line in case.runtime.warnings.value_or([]) if _EXCEEDED.search(line)), "")
    if not warned:
        return None
    because = f"the model is larger than the GPU's share of the memory: {warned}"
    return _found(case, because, (cite(case, "runtime.warnings"),))


def _by_limit(case: Case) -> Found | Absent | Suspected | None:
    asked, what = _asked(case)
    limit, whose = _limit(case)
    if not asked or not limit:
        return None
    sizes = f"{asked / GIB:.1f} GiB asked for, {limit / GIB:.1f} GiB for the GPU"
    weights = case.model.weights_bytes
    guessed = isinstance(weights, Known) and weights.origin in (Origin.ESTIMATED, Origin.TOLD)
    sure = whose in _SAID or isinstance(case.runtime.asked_bytes, Known) or not guessed
    if asked <= limit * (1.0 if sure else NEWER_SYSTEMS):
        return Absent(f"it fits: {sizes}") if isinstance(case.machine.memory.pressure, Known) else None
    if not tells_only_of_slowness(case):  # it ran well before with as much memory
        return Suspected(f"it hardly fits: {sizes}", "machine.memory.pressure", CAUSE.ask)
    return _found(
        case,
        f"the model asks for more memory than the GPU may have: {sizes}",
        (cite(case, what, f"{limit / GIB:.1f} GiB for the GPU"), cite(case, whose)),
    )


def _asked(case: Case) -> tuple[float, str]:
    """What the model takes: as the runtime reckons, else its weights and its cache."""
    if isinstance(case.runtime.asked_bytes, Known):
        return float(case.runtime.asked_bytes.value), "runtime.asked_bytes"
    cache = kv_per_token(case) * case.runtime.context_length.value_or(0)
    weights = case.model.weights_bytes.value_or(0) or sum(b.bytes for b in buffers_of(case, "model", on_gpu=True))
    known = isinstance(case.model.weights_bytes, Known)
    return (weights + cache if weights else 0.0), "model.weights_bytes" if known else "runtime.buffers"


def _limit(case: Case) -> tuple[float, str]:
    """The most that the GPU may have, and where that is read."""
    if isinstance(case.machine.memory.wired_limit_bytes, Known):
        return unified_limit_bytes(case) or 0.0, "machine.memory.wired_limit_bytes"
    for index, device in enumerate(case.runtime.devices.value_or([])):
        if is_gpu(device) and isinstance(device.total_bytes, Known):
            return float(device.total_bytes.value), f"runtime.devices.{index}.total_bytes"
    if isinstance(case.runtime.available_bytes, Known):
        return float(case.runtime.available_bytes.value), "runtime.available_bytes"
    if isinstance(case.machine.memory.total_bytes, Known):
        return unified_limit_bytes(case) or 0.0, "machine.memory.total_bytes"
    # What the GPU may have where the chip is known and its memory is not: of the most that it was sold with
    apple = unified_memory("Apple")
    for index, gpu in enumerate(case.machine.gpus.value_or(())):
        largest = apple.largest_bytes(gpu.name.value_or(""))
        if largest:
            return float(apple.gpu_bytes(largest)), f"machine.gpus.{index}.name"
    return 0.0, ""


def _by_pressure(case: Case) -> Found | None:
    """By the system's own word on its memory, with a model that is large enough to be the reason."""
    memory = case.machine.memory
    pressure = memory.pressure.value_or("normal")
    if pressure == "normal" or _is_large(case) is False:
        return None
    used = memory.swap_used_bytes
    swap = f", {used.value / GIB:.1f} GiB swapped" if isinstance(used, Known) else ""
    because = f"memory pressure is {pressure} while the model is loaded{swap}"
    return _found(case, because, (cite(case, "machine.memory.pressure"),))


def _is_large(case: Case) -> bool | None:
    """Whether the model takes so much of the memory that it is what is packed away; None where its size is unknown."""
    total = case.machine.memory.total_bytes.value_or(0)
    taken = max(case.model.weights_bytes.value_or(0), case.runtime.asked_bytes.value_or(0))
    return taken >= LARGE_SHARE * total if total and taken else None


def _by_compressor(case: Case) -> Found | Suspected | None:
    """Gigabytes that macOS packed away: of a large model, every token unpacks them; else they may be anybody's."""
    memory = case.machine.memory
    packed, total = memory.compressed_bytes, memory.total_bytes.value_or(0)
    if not isinstance(packed, Known) or packed.value < max(LEAST_PACKED, PACKED_SHARE * total):
        return None
    large, pressure = _is_large(case), memory.pressure.value_or("")
    words = f"{packed.value / GIB:.1f} GiB are in the memory compressor"
    beyond_doubt = packed.value >= LARGE_SHARE * total > 0 and pressure != "normal"
    if large or beyond_doubt or (large is None and pressure not in {"", "normal"}):
        because = f"{words}, from which every token has to fetch them"
        return _found(case, because, (cite(case, "machine.memory.compressed_bytes"),))
    known = "machine.memory.pressure" if large is False else "model.weights_bytes"
    return None if pressure == "normal" else Suspected(words, known, CAUSE.ask)


def _by_words(case: Case) -> Found | Suspected | None:
    """Somebody who watched the memory fill up, or gigabytes go to swap; "working set" alone is a word."""
    said = remarks_on(case, Topic.SWAPPING)
    if not said:
        return None
    total, weights = float(case.machine.memory.total_bytes.value_or(0)), float(case.model.weights_bytes.value_or(0))
    # The largest amount of memory that any remark or the model's size names
    told = [amount_bytes(remark.text) for remark in case.account.remarks.value_or(())]
    filled = total and max(weights, float(case.runtime.resident_bytes.value_or(0)), *told) >= FILLED * total
    # a full memory alone is how macOS uses it
    limited = any(_LIMIT.search(remark.text) for remark in said) or not 0 < weights < LARGE_SHARE * total
    seen = [
        remark
        for remark in said
        if (limited and _FULL.search(remark.text))
        or _PRESSED.search(remark.text)
        or (_PAGED.search(remark.text) and (filled or amount_bytes(remark.text)))
    ]
    if not seen:
        return Suspected(said[0].text, "machine.memory.pressure", CAUSE.ask)
    return _found(case, f"the memory is too small for it: {seen[0].text}", cite_remarks(case, seen))


def _found(case: Case, because: str, evidence: Citations) -> Found:
    """More for the GPU where the system can spare it; less of other things where the memory itself is short."""
    smaller = Remedy(Knob.QUANT.to(None, "a shorter context, or a smaller quant or model"), None, "quality falls")
    asked, limit, memory = _asked(case)[0], _limit(case)[0], case.machine.memory
    # With memory for all of it; physics reckons with what is in reach of the GPU, so that may be the case as it is
    cure = Cure(vram_bytes=asked * BESIDE_IT + margin_bytes(case)) if asked and seen_split(case) else Cure()
    total = float(memory.total_bytes.value_or(0))
    remedies: tuple[Remedy, ...] = (smaller,)
    # Whether the whole memory is short, not only the part that the GPU may have: a higher limit makes that worse
    packed = memory.compressed_bytes.value_or(0) >= max(LEAST_PACKED, PACKED_SHARE * total)
    short = memory.pressure.value_or("normal") != "normal" or packed or bool(remarks_on(case, Topic.SWAPPING))
    if not asked or not total or asked > total - max(LEAST_LEFT, LEFT_SHARE * total):
        remedies = (*_shorter_context(case, limit), smaller)
    elif short:
        others = Knob.OTHER_LOAD.to(None, "close other programs: beside them the memory is too small")
        remedies = (Remedy(others, cure, "unsaved work"), smaller)
    elif asked > limit:
        why = "let the GPU have more of the memory: the system keeps enough for itself"
        wired = Remedy(Knob.WIRED_LIMIT.to(int(asked * BESIDE_IT / MIB), why), cure, _MAY_FREEZE)
        remedies = (wired, *_shorter_context(case, limit), smaller)
    return Found(because, evidence, cure, remedies)


def _shorter_context(case: Case, limit: float) -> tuple[Remedy, ...]:
    """The longest context beside which the weights have room; none where it is no shorter, or too short for a chat."""
    context, each = case.runtime.context_length.value_or(0), kv_per_token(case)
    room = limit - case.model.weights_bytes.value_or(0) - compute_bytes(case) - margin_bytes(case)
    fitting = int(room / each) // _STEP * _STEP if each and isinstance(case.model.weights_bytes, Known) else 0
    used = max(SHORTEST_USEFUL, case.wish.context_tokens.value_or(0), case.runtime.longest_sequence.value_or(0))
    if not used <= fitting < context:
        return ()
    change = Knob.CONTEXT_LENGTH.to(fitting, f"at {fitting} tokens all of it fits into the GPU's share of the memory")
    return (Remedy(change, Cure(vram_bytes=limit, context=fitting), "long chats are cut"),)


CAUSE = Cause(
    title="The shared memory of GPU and CPU is too small",
    phase="decode",
    needs=(
        (
            "runtime.asked_bytes",
            "model.weights_bytes",
            "runtime.buffers",
            "runtime.warnings",
            "machine.memory.pressure",
            "account.remarks",
        ),
        (
            "machine.system.name",
            "machine.cpu.model",
            "machine.gpus",
            "machine.memory.wired_limit_bytes",
            "runtime.name",
        ),
    ),
    check=check,
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
