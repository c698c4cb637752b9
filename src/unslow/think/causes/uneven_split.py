"""The model is split over unlike GPUs so that a slow one has too much of it, while a fast one has room.

## Why it is slow
Split by layers, the GPUs take turns, and the time of a token is the sum of their times. Layers on the slow card cost
several times what they would on the fast one. By default the parts follow the free memory, not the speed; a fixed
`--tensor-split` from another machine may even push layers to the CPU while a GPU has room.

Guides say that the smaller of two cards limits both, but that holds only for equal parts (vLLM): llama.cpp gives each
what its memory takes.

## How to confirm
The buffers of each GPU in the log (`-lv 4`), against its free memory in `nvidia-smi` and its bandwidth.

## What it is not
Parts that follow the memory of GPUs alike, or a slow GPU whose memory is needed: then the split is as good as it gets.

## How to fix
Give the fastest GPU as much as it holds, then the next; or leave the slow one out where the model fits without it:
- llama.cpp: `--tensor-split 20,4`, `--device CUDA0`
- Ollama: `CUDA_VISIBLE_DEVICES=0`; `LLAMA_ARG_TENSOR_SPLIT=20,4` in the environment of the service from 0.30 on
- LM Studio: "favor main GPU", with the fast one first
- vLLM, SGLang: equal parts only: leave the slow one out; Transformers: `max_memory={0: "22GiB", 1: "4GiB"}`

## Safety
Answers do not change.
"""

import math

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known
from unslow.think.case.bandwidth import MARGIN_BYTES, GpuShare, filled_shares, gpu_numbered, gpu_shares, splits_tensors
from unslow.think.case.narrative import WORTH_COMPARING
from unslow.think.case.placement import cpu_computes, gpus_computing
from unslow.think.case.vram import gpu_places, gpus_of
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy
from unslow.think.causes._facts import ask_for, cite

SHOW = "{placement}; and {gpu_memory}"


def check(case: Case) -> Found | Absent:
    """Hold the time of this split against that of one that fills the fastest GPU first."""
    ask_for(case, "machine.gpus", "{gpu_list}")
    if len(gpus_of(case)) < 2 or gpus_computing(case) == 1:  # noqa: PLR2004 (several)
        return Absent("one GPU computes")
    ask_for(case, "runtime.buffers", SHOW)
    parts = gpu_shares(case)
    if len(parts) < 2:  # noqa: PLR2004 (several)
        return Absent("one of the GPUs that are listed computes")
    if splits_tensors(case):
        return Absent("every layer is split: the GPUs work at the same time")
    best = filled_shares(parts)
    gain = _time(parts) / _time(best)
    idle = max(parts, key=lambda p: p.free_bytes)
    spilled = cpu_computes(case) and isinstance(case.runtime.tensor_split, Known)
    if gain < WORTH_COMPARING and not (spilled and idle.free_bytes > 2 * MARGIN_BYTES):
        return Absent("no other split of these GPUs would be faster")
    # Each GPU's part of the model, in the smallest whole numbers that are right to a hundredth of it
    whole = sum(p.model_bytes for p in best)
    hundredths = [round(100 * p.model_bytes / whole) for p in best]
    split = ",".join(str(part // math.gcd(*hundredths)) for part in hundredths)
    slowest = min(parts, key=lambda p: p.bytes_per_s)
    # with layers on the CPU the gain is theirs, and how many find room is not known to physics here
    cure = Cure(best_split=True) if gain >= WORTH_COMPARING else None
    place = next(place for place, gpu in gpu_places(case) if gpu == gpu_numbered(case, idle.gpu))
    return Found(
        because=f"GPU {slowest.gpu} holds {slowest.model_bytes / GIB:.1f} GiB and is the slowest, "
        f"while {idle.free_bytes / GIB:.1f} GiB are free on GPU {idle.gpu}",
        evidence=(cite(case, "runtime.buffers"), cite(case, f"machine.gpus.{place}.vram_free_bytes")),
        cure=cure,
        remedies=(Remedy(Knob.TENSOR_SPLIT.to(split, "the fastest GPU first"), cure),),
    )


def _time(parts: list[GpuShare]) -> float:
    """Seconds to read the model once, one GPU after the other."""
    return sum(p.model_bytes / p.bytes_per_s for p in parts)


CAUSE = Cause(
    title="The split gives a slow GPU too much",
    phase="decode",
    needs=("machine.gpus",),
    check=check,
    on_gpu=True,
    gpu_only=True,
    ask=SHOW,
)
