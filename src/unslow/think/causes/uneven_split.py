"""The model is split over unequal GPUs so that a slow one holds too much, while a fast one has free memory.

## Why it is slow
With a layer split the GPUs take turns, and the time of a token is the sum of their times. A layer on the slow card
takes several times as long as on the fast one. By default the split follows free memory, not speed; a fixed
`--tensor-split` from another machine may even push layers to the CPU while a GPU has free memory.

Guides say that the smaller of two cards limits both, but that holds only for equal parts (vLLM): llama.cpp gives each
card what its memory holds.

## How to confirm
Compare the buffers of each GPU in the log (`-lv 4`) with its free memory in `nvidia-smi` and with its bandwidth.

## What it is not
A split that follows the memory of equal GPUs, or a slow GPU whose memory is needed: then no other split is faster.

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
from unslow.facts.values import GIB, Known
from unslow.think.case.cure import Cure
from unslow.think.case.gpus import MARGIN_BYTES, filled_shares
from unslow.think.case.narrative import WORTH_COMPARING
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, all_of, finding

SHOW = "{placement}; and {gpu_memory}"


def one_gpu(case: CaseView) -> Absent | None:
    """How many GPUs compute: one needs no split."""
    several = len(case.gpus.usable) > 1 and case.gpus.computing_count != 1
    return None if several else Absent("only one GPU computes")


def split_against_fastest_first(case: CaseView) -> Found | Absent:
    """The time that the GPUs take to read their parts, against a split that fills the fastest GPU first."""
    case.ask_for("runtime.memory.buffers", SHOW)
    parts = case.gpus.shares
    if len(parts) < 2:  # noqa: PLR2004 (several)
        return Absent("only one of the listed GPUs computes")
    if case.gpus.split_tensors:
        return Absent("every layer is split: the GPUs work at the same time")
    best = filled_shares(parts)
    # To read the model once, one GPU after the other
    now_s, best_s = (sum(p.model_bytes / p.bytes_per_s for p in split) for split in (parts, best))
    gain = now_s / best_s
    roomy, slowest = max(parts, key=lambda p: p.free_bytes), min(parts, key=lambda p: p.bytes_per_s)
    spilled = case.placement.cpu_computes and isinstance(case.runtime.placement.tensor_split, Known)
    if gain < WORTH_COMPARING and not (spilled and roomy.free_bytes > 2 * MARGIN_BYTES):
        return Absent("no other split over these GPUs would be faster")
    # Each GPU's part of the model, in the smallest integers that are accurate to 1 %
    percent = [round(100 * p.model_bytes / sum(p.model_bytes for p in best)) for p in best]
    split = ",".join(str(part // math.gcd(*percent)) for part in percent)
    place = next(place for place, gpu in case.gpus.places if gpu == case.gpus.by_number(roomy.gpu))
    return finding(
        case,
        f"GPU {slowest.gpu} is the slowest and holds {slowest.model_bytes / GIB:.1f} GiB, "
        f"while GPU {roomy.gpu} has {roomy.free_bytes / GIB:.1f} GiB free",
        "runtime.memory.buffers",
        f"machine.gpus.{place}.vram_free_bytes",
        # with layers on the CPU the gain is theirs, and physics does not know how many will fit
        cure=Cure(best_split=True) if gain >= WORTH_COMPARING else None,
        fixes=[Knob.TENSOR_SPLIT.to(split, "fill the fastest GPU first")],
    )


CAUSE = Cause(
    title="The split gives a slow GPU too much",
    phase="decode",
    needs=all_of("machine.gpus"),
    routes=(Route("counted", one_gpu), Route("counted", split_against_fastest_first)),
    on_gpu=True,
    gpu_only=True,
    ask=SHOW,
)
