"""The model is split over unlike GPUs so that a slow one has too much of it, while a fast one has room.

## Why it is slow
Split by layers, the GPUs take turns, and the time of a token is the sum of their times. Layers on the slow card cost
several times what they would on the fast one. By default the parts follow the free memory, not the speed; a fixed
`--tensor-split` from another machine may even push layers to the CPU while a GPU has room.

## How to confirm
The buffers of each GPU in the log, against its free memory in `nvidia-smi` and its bandwidth.

## How to fix
Give the fastest GPU as much as it holds (`--tensor-split 20,4`, `--main-gpu`), then the next; or leave the slow one out
where the model fits without it.

## Safety
Answers do not change.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB, MIB
from unslow.facts.values import Known
from unslow.think.adapt.account import WORTH_COMPARING
from unslow.think.adapt.several_gpus import Share, shares, splits_tensors
from unslow.think.adapt.vram import gpus_of
from unslow.think.adapt.who_computes import cpu_computes
from unslow.think.causes._asking import ask_for
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, cite

MARGIN_BYTES = 512 * MIB
SHOW = "restart llama-server with `-lv 4` and show the lines `buffer size`, beside `nvidia-smi`"


def check(case: Case) -> Found | Absent:
    """Hold the time of this split against that of one that fills the fastest GPU first."""
    ask_for(case, "machine.gpus", "`nvidia-smi -L`")
    ask_for(case, "runtime.buffers", SHOW)
    parts = shares(case)
    if len(gpus_of(case)) < 2 or len(parts) < 2:  # noqa: PLR2004 (several)
        return Absent("one GPU computes")
    if splits_tensors(case):
        return Absent("every layer is split: the GPUs work at the same time")
    best = _filled(parts)
    gain = _time(parts) / _time(best)
    idle = max(parts, key=lambda p: p.free_bytes)
    spilled = cpu_computes(case) and isinstance(case.runtime.tensor_split, Known)
    if gain < WORTH_COMPARING and not (spilled and idle.free_bytes > 2 * MARGIN_BYTES):
        return Absent("no other split of these GPUs would be faster")
    split = ",".join(f"{p.model_bytes / GIB:.1f}" for p in best)
    slowest = min(parts, key=lambda p: p.bytes_per_s)
    words = (
        f"GPU {slowest.gpu} holds {slowest.model_bytes / GIB:.1f} GiB and is the slowest, "
        f"while {idle.free_bytes / GIB:.1f} GiB are free on GPU {idle.gpu}"
    )
    return Found(
        because=words,
        evidence=(cite(case, "runtime.buffers"), cite(case, f"machine.gpus.{_place(case, idle)}.vram_free_bytes")),
        remedies=(Remedy(Knob.TENSOR_SPLIT.to(split, "the fastest GPU first")),),
        speedup=gain if gain >= WORTH_COMPARING else None,
    )


def _time(parts: list[Share]) -> float:
    """Seconds to read the model once, one GPU after the other."""
    return sum(p.model_bytes / p.bytes_per_s for p in parts)


def _filled(parts: list[Share]) -> list[Share]:
    """The same bytes, on the fastest GPUs first, as far as their free memory goes."""
    left = sum(p.model_bytes for p in parts)
    placed: dict[int, float] = {}
    for part in sorted(parts, key=lambda p: -p.bytes_per_s):
        placed[part.gpu] = min(left, part.model_bytes + max(0.0, part.free_bytes - MARGIN_BYTES))
        left -= placed[part.gpu]
    return [p._replace(model_bytes=placed[p.gpu]) for p in parts]


def _place(case: Case, part: Share) -> int:
    return next(number for number, gpu in enumerate(gpus_of(case)) if gpu.index == part.gpu)


CAUSE = Cause(
    title="The split gives a slow GPU too much",
    phase="decode",
    needs=("machine.gpus", "runtime.buffers"),
    check=check,
    gpu_only=True,
    ask=SHOW,
)
