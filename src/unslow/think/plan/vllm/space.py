"""The values that each knob can take here, and why others can't be taken."""

from collections.abc import Iterator
from itertools import product

from unslow.facts.units import GIB
from unslow.think.memory.vllm import profile
from unslow.think.plan.report import RejectedShown
from unslow.think.plan.vllm.memory import Pool, freest
from unslow.think.plan.vllm.question import Choice, Question

BATCHES = (512, 1024, 2048, 4096, 8192, 16384)
POWERS = frozenset({2, 4, 8, 16, 32, 64})
"""Numbers of cards that heads can be shared by; and all cards that there are."""
SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
FEWER = 4
FP8_CACHE = frozenset({"ada", "hopper", "blackwell", "cdna3", "cdna4"})
"""Chips that have the type; on an RTX 3090 vLLM ends with "type fp8e4nv not supported in this architecture"
(https://github.com/vllm-project/vllm/issues/26431)."""
PACKS_AT_LOAD = frozenset({"ampere", "ga100", "ada", "hopper", "blackwell", "cdna3", "cdna4"})
"""Chips on which vLLM multiplies weights in FP8, and rounds plain ones to it while it loads them
(`--quantization fp8`)."""
FP8_CACHE_SINCE = (0, 11)
"""Since then the V1 engine has kernels for it on more than one architecture
(https://github.com/vllm-project/vllm/pull/24577, September 2025)."""
LATENT_FP8 = frozenset({"hopper", "blackwell"})
"""Chips whose kernels for latents take FP8 (FlashMLA, CUTLASS)."""


def choices(question: Question, pool: Pool) -> Iterator[Choice]:
    """Every combination that vLLM accepts, at the largest share and the shortest context that the goal allows."""
    context = min(question.goal.context, question.trained)
    for number, (tensor, pipeline) in product(range(len(question.checkpoints)), splits(question)):
        if not can_split(question, number, tensor) or not loads(question, pool, number, tensor, pipeline):
            continue
        for kv, eager, sequences, batched in product(
            cache_types(question), (False, True), sequence_counts(question), batches(question)
        ):
            choice = Choice(number, tensor, pipeline, 0.0, context, sequences, batched, kv, eager)
            if batched >= sequences:  # else vLLM refuses to start
                yield choice._replace(share=pool.most(choice))


def splits(question: Question) -> list[tuple[int, int]]:
    """Tensor and pipeline parallel: one card, every layer on several, or whole layers on each of several."""
    cards = [n for n in range(2, len(question.hardware.rooms) + 1) if n in POWERS or n == len(question.hardware.rooms)]
    found = [(1, 1), *((n, 1) for n in cards), *((1, n) for n in cards if n <= question.shape.layers)]
    now = question.current
    if now and now.cards <= len(question.hardware.rooms) and (now.tensor, now.pipeline) not in found:
        found.append((now.tensor, now.pipeline))
    return found


def can_split(question: Question, checkpoint: int, tensor: int) -> bool:
    """Whether every layer can be cut in so many parts."""
    if tensor == 1 or (question.current and question.current.tensor == tensor):
        return True  # what runs can be run
    shape, align = question.shape, question.checkpoints[checkpoint].align
    shared = not shape.kv_heads or shape.kv_heads % tensor == 0 or tensor % shape.kv_heads == 0
    widths = [w for w in (shape.feed_forward, shape.expert_width) if w]
    return shape.heads % tensor == 0 and shared and all(width % (tensor * align) == 0 for width in widths)


def loads(question: Question, pool: Pool, checkpoint: int, tensor: int, pipeline: int) -> bool:
    """Whether the weights find room while they are loaded: what is packed at load lies there whole before."""
    of = question.checkpoints[checkpoint]
    source = 0 if of.packed_at_load else checkpoint
    room = min(room.usable_bytes for room in freest(question, tensor * pipeline))
    several = Choice(0, tensor, pipeline, 0.0, 1, 1, 1, "auto", eager=True)
    context = profile.context(question.settings(several)).high
    return max(pool.weights(source, tensor, pipeline)) + context <= room


def cache_types(question: Question) -> tuple[str, ...]:
    """auto, and FP8 where chip and version have it; what runs now too."""
    now = (question.current.kv,) if question.current else ()
    return tuple(dict.fromkeys(("auto", *(("fp8",) if not why_no_fp8(question) else ()), *now)))


def why_no_fp8(question: Question) -> str:
    """Why the cache can't be kept in FP8; empty where it can."""
    device = question.hardware.device
    if device.family not in FP8_CACHE:
        return f"the {device.name} has no FP8: vLLM ends with an error at start"
    if question.version < FP8_CACHE_SINCE:
        return f"vLLM {_dotted(question.version)} has no kernels for it that this GPU can use: newer ones have"
    if question.shape.kv_rank and device.family not in LATENT_FP8:
        return f"the kernels for this model's latents take no FP8 on the {device.name}"
    return ""


def sequence_counts(question: Question) -> tuple[int, ...]:
    """As many as there are users, four times as many or as few, the default, and what runs now."""
    most, now = question.default().sequences, question.now.sequences
    enough = next((n for n in SEQUENCES if n >= question.goal.users), most)
    return tuple(sorted({max(1, enough // FEWER), min(enough, most), min(enough * FEWER, most), most, now}))


def batches(question: Question) -> tuple[int, ...]:
    """From the smallest useful one to the largest default, and what runs now."""
    return tuple(sorted({*BATCHES, question.now.batched}))


def refused(question: Question, pool: Pool) -> list[RejectedShown]:
    """What was asked for in vain: cards that can't share the heads, a cache type that the GPU lacks."""
    found = []
    every = len(question.hardware.rooms)
    if every > 1 and not can_split(question, 0, every):
        because = f"{question.shape.heads} heads and the matrices of this format can't be cut in {every} equal parts"
        found.append(RejectedShown(what=f"--tensor-parallel-size {every}", because=because))
    if why := why_no_fp8(question):
        found.append(RejectedShown(what="--kv-cache-dtype fp8", because=why))
    for number, of in enumerate(question.checkpoints):
        if not any(loads(question, pool, number, *split) for split in splits(question)):
            size = sum(part.bytes for part in of.parts) / GIB
            found.append(RejectedShown(what=of.quant, because=f"its weights of {size:.1f} GiB do not fit the cards"))
    return found


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
