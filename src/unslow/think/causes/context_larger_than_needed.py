"""The context is far longer than what is used, and its KV cache pushes layers off the GPU.

## Why it is slow
The KV cache is allocated for the whole configured context when the model is loaded, used or not. What it takes, the
weights cannot have: layers move to the CPU, and every token pays for them. Ollama's default context grows with the GPU:
4096 tokens, 32,768 from 23 GiB on, 262,144 from 47 GiB on.

Guides give 16 GB for 32K tokens of an 8B model and 84 GB of a 70B one, but these models share their keys and values
between heads: it is 4 and 10 GiB. It is not a fifth of the weights either: it depends on the context alone.

## How to confirm
KV cache bytes = cells x bytes per token. At the context that is really used, more layers would fit. llama.cpp prints
`llama_kv_cache: size = ...`; `/metrics` (start it with `--metrics`) shows the longest sequence so far.

## What it is not
A cache that leaves all layers on the GPU, however long the context; nor one that is really used to its end.

## How to fix
Set the context to what you need, or store the cache as q8_0:
- llama.cpp: `-c 8192`; without `-c`, builds from 7407 on shrink the context themselves before they give up layers
- Ollama: `OLLAMA_CONTEXT_LENGTH=8192`, or `num_ctx` in the request or the Modelfile
- LM Studio: `lms load KEY --context-length 8192`
- vLLM: `--max-model-len 8192`; SGLang: `--context-length 8192`: there it costs room for other requests, not layers
- Transformers: nothing to set; its cache grows with the conversation

## Safety
Conversations longer than the new context are cut or refused.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB
from unslow.think.case.cure import Cure
from unslow.think.case.narrative import slow_side_has_more, told_ratio
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, all_of, finding, weights_failed
from unslow.think.plan import free_memory

TELL = "say how long your conversations get: `unslow --context TOKENS`{longest_sequence}"
DRIVEN_OUT = 1.5  # Times as fast with the shorter context: attention alone does not cost that much of a short prompt
_SETTING = re.compile(
    r"num_ctx|ctx[-_]size|(?<![\w-])-c \d|n_ctx|max[-_]model[-_]len|context(?:size| length| size| window| set)\b",
    re.IGNORECASE,
)
LONG = 8192  # Tokens: a shorter context is not what makes a model grow
VERY_LONG, ROOMY = 65536, 0.7
"""Tokens of a context that takes gigabytes in any model, and a share of the GPU that leaves room for a usual one."""


def layers_at_needed_context(case: CaseView) -> Found | Absent:
    """How many more layers would fit at the context that is used."""
    context, needed = case.runtime.context.length.need(), free_memory.needed_context(case)
    cache, left = case.memory.kv_bytes_per_token * context, case.placement.layers_on_host
    if not left:
        return Absent(f"the KV cache of {cache / GIB:.1f} GiB leaves all layers on the GPU")
    case.memory.need_context_used(TELL)
    if needed >= context:
        return Absent(f"{context} tokens are configured, {needed} needed")
    layers, demand = case.memory.shape.layers, case.memory.demand()
    if demand.lacking <= 0:
        return Absent(f"there was room for it: {demand.available / GIB:.1f} GiB free")
    if case.memory.fits_with_flash_attention:
        return Absent(f"with flash attention all {context} tokens fit")
    fitting, now = case.memory.layers_that_fit(demand.available, needed), case.placement.layers.on_gpu
    cure = Cure(vram_bytes=demand.available, context=needed)
    if not free_memory.brings_back_enough(case, cure, fitting - now, left):
        return Absent(f"even at {needed} tokens only {fitting} layers fit")
    wish = case.wish.context_tokens.get()
    return finding(
        case,
        f"the KV cache for {context} tokens takes {cache / GIB:.1f} GiB; at {needed} tokens {fitting} of {layers + 1} "
        f"layers fit on the GPU instead of {now}",
        case.cite("runtime.context.length", f"{needed} tokens needed"),
        "wish.context_tokens" if wish else "runtime.history.longest_sequence",
        cure=cure,
        fixes=[Remedy(Knob.CONTEXT_LENGTH.to(needed, "a shorter context frees GPU memory"), cure, free_memory.CUT)],
        explains=("weights_spill_to_ram", *(("other_process_holds_vram",) if fitting > layers else ())),
    )


def runtimes_own_sum(case: CaseView) -> Found | Absent:
    """By the runtime's own sums, the weights would fit without the cache and buffers of so long a context."""
    asked, free = case.runtime.memory.asked_bytes.need(), case.vram.available_bytes
    context = case.memory.need_context()
    if asked <= free:
        return Absent(f"the whole model fits: {asked / GIB:.1f} GiB needed, {free / GIB:.1f} GiB free")
    if case.memory.fits_with_flash_attention:
        return Absent(f"with flash attention all {context} tokens fit")
    weights = float(case.memory.weights_bytes or asked - case.runtime.cache.bytes.need())
    if weights > free:
        return Absent(f"the weights alone need {weights / GIB:.1f} GiB, and {free / GIB:.1f} GiB were free")
    wanted = max(case.memory.context_used, free_memory.SHORTEST_USEFUL)
    if wanted >= context:
        return Absent(f"{context} tokens are configured, {wanted} needed")
    fitting = int(context * (free - weights) / max(1.0, asked - weights)) // free_memory.STEP * free_memory.STEP
    shorter = Knob.CONTEXT_LENGTH.to(max(free_memory.SHORTEST_USEFUL, fitting), "what fits beside the weights")
    return finding(
        case,
        f"the weights take {weights / GIB:.1f} of the {free / GIB:.1f} GiB that were free; the KV cache and buffers "
        f"for {context} tokens make it {asked / GIB:.1f} GiB",
        case.cite("runtime.memory.asked_bytes", f"{free / GIB:.1f} GiB free"),
        case.memory.context_fact,
        cure=Cure(vram_bytes=free, context=free_memory.SHORTEST_USEFUL),
        fixes=[Remedy(shorter, Cure(vram_bytes=free, context=fitting), free_memory.CUT)],
    )


def grown_beyond_weights(case: CaseView) -> Found | None:
    """The part of a split model that is on the GPU is larger than all of its weights."""
    grown, fact = case.placement.growth_beyond_weights, case.memory.context_fact
    if grown is None or not fact or (context := case.need(fact)) < LONG:
        return None
    weights = f"{grown.weights / GIB:.0f} GiB"
    because = (
        f"the model takes {grown.size / GIB:.0f} GiB with a context of {context} tokens, its weights about {weights}: "
        f"they would fit where {grown.on_gpu / GIB:.0f} GiB are on the GPU"
    )
    cited = case.cite("runtime.memory.size_bytes", f"{weights} of weights")
    return finding(case, because, cited, fact, fixes=[free_memory.fitting_context(case), free_memory.HALF_CACHE])


def shorter_was_faster(case: CaseView) -> Found | None:
    """A person set two contexts, and the shorter was far faster: a setting alone costs nothing unless layers move."""
    trial = case.narrative.experiment_on(Topic.CONTEXT, metrics=("decode",))
    if trial is None or trial.worded or told_ratio(trial) < DRIVEN_OUT or not _SETTING.search(trial.text):
        return None
    if slow_side_has_more(trial, Topic.CONTEXT) is False:
        return None
    because = f"with a shorter context set it is {told_ratio(trial):.1f} times as fast: {trial.text}"
    return finding(case, because, fixes=[free_memory.fitting_context(case)], trial=trial)


def very_long_context(case: CaseView) -> Found | None:
    """A split model whose weights would leave room on the GPU, with a context that few ever use."""
    split, fact, vram = case.placement.split, case.memory.context_fact, case.vram.total_bytes
    weights, blamed = case.memory.weights_bytes, (Topic.OTHER_VRAM_USER, Topic.VRAM_FREE)
    if not split or not fact or not vram or not weights or case.placement.is_deliberate:
        return None
    if case.narrative.blames_version or (context := case.need(fact)) < VERY_LONG:
        return None
    if case.memory.fits_with_flash_attention or weights > ROOMY * vram or case.narrative.remarks_on(*blamed):
        return None
    because = (
        f"{split.words} with a context of {context} tokens, although the weights of {weights / GIB:.0f} GiB alone "
        f"would leave room on a GPU of {vram / GIB:.0f} GiB"
    )
    cited = case.cite(fact, f"{weights / GIB:.0f} GiB of weights")
    return finding(case, because, cited, split.fact, fixes=[free_memory.fitting_context(case)])


CAUSE = Cause(
    title="The context is larger than needed",
    phase="decode",
    needs=all_of(
        "runtime.context.length or runtime.context.requested or runtime.context.default or "
        "runtime.memory.allocation_failure or account.comparisons",
        "wish.context_tokens or runtime.history.longest_sequence or runtime.memory.asked_bytes or "
        "runtime.memory.size_bytes or model.weights_bytes or runtime.memory.allocation_failure or account.comparisons",
        "runtime.placement.gpu_layers or runtime.memory.allocation_failure or machine.gpus.0.processes or "
        "runtime.memory.asked_bytes or runtime.memory.size_bytes or account.comparisons",
    ),
    routes=(
        Route("log", weights_failed), Route("counted", layers_at_needed_context), Route("log", runtimes_own_sum),
        Route("log", grown_beyond_weights), Route("told", shorter_was_faster), Route("counted", very_long_context),
    ),
    on_gpu=True,
    fails_load=True,
    gpu_only=True,
    explains=("weights_spill_to_ram",),
    ask="{placement}; and the size of the KV cache, which the same log shows",
)  # fmt: skip
