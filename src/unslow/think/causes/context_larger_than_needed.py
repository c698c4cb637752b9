"""The context is far longer than what is used, and its KV cache pushes layers out of the GPU.

## Why it is slow
The KV cache is allocated for the whole configured context when the model is loaded, used or not. What it takes, the
weights can't have: layers move to the CPU, and every token pays for them. Ollama's default context grows with the GPU:
4096 tokens, 32,768 from 23 GiB on, 262,144 from 47 GiB on.

Guides give 16 GB for 32K tokens of an 8B model and 84 GB of a 70B one, but these models share their keys and values
between heads: it is 4 and 10 GiB. It is not a fifth of the weights either: it depends on the context alone.

## How to confirm
KV cache bytes = cells x bytes per token. At the context that is really used, more layers would fit. llama.cpp prints
`llama_kv_cache: size = ...`; `/metrics` (start it with `--metrics`) shows the longest sequence so far.

## What it is not
A cache that leaves all layers on the GPU, however long the context; nor one that is really used up to its end.

## How to fix
Set the context to what you need, or store the cache as q8_0:
- llama.cpp: `-c 8192`; without `-c`, builds from 7407 on shrink the context themselves before they give up layers
- Ollama: `OLLAMA_CONTEXT_LENGTH=8192`, or `num_ctx` in the request or the Modelfile
- LM Studio: `lms load KEY --context-length 8192`
- vLLM: `--max-model-len 8192`; SGLang: `--context-length 8192`: there it costs places for other requests, not layers
- Transformers: nothing to set; its cache grows with the conversation

## Safety
Longer conversations than the new context are cut or refused.
"""

import re

import msgspec

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known, MissingFactError, first_known
from unslow.think.case.demand import fitting_placement, kv_per_token, plan_of, read_demand, read_shape
from unslow.think.case.gpus import vram_total_bytes
from unslow.think.case.narrative import experiment_on, lost_since_a_version, remarks_on, slow_side_has_more, told_ratio
from unslow.think.case.placement import (
    counted_layers,
    grown_beyond_weights,
    layers_left_on_host,
    seen_split,
    set_on_purpose,
)
from unslow.think.case.vram import available_vram_bytes, margin_bytes
from unslow.think.case.work import Cure, with_settings
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, check_by, fact_at
from unslow.think.causes._facts import cite, cite_comparison
from unslow.think.causes._memory_remedies import HALF_CACHE, SHORTEST_USEFUL, brings_back_enough, shorter_context

TELL = "say how long your conversations get: `unslow --context TOKENS`{longest_sequence}"
_STEP = 1024  # Tokens: an advice in round numbers
DRIVEN_OUT = 1.5  # Times as fast with the shorter context: attention alone does not cost that much of a short prompt
_SETTING = re.compile(
    r"num_ctx|ctx[-_]size|(?<![\w-])-c \d|n_ctx|max[-_]model[-_]len|context(?:size| length| size| window| set)\b",
    re.IGNORECASE,
)
LONG = 8192  # Tokens: a shorter context is not what makes a model grow
VERY_LONG, ROOMY = 65536, 0.7
"""Tokens of a context that takes gigabytes in any model, and a share of the GPU that leaves room for a usual one."""
_AS_LONG_AS_USED = Remedy(
    Knob.CONTEXT_LENGTH.to(None, "as long as the conversations are, and no longer"), None, "long chats are cut"
)
HEADROOM = 2  # A conversation may grow to twice what was seen before it would be cut


def _by_failure(case: Case) -> Absent | None:
    failure = case.runtime.allocation_failure.value_or(None)
    return Absent("the weights themselves found no room") if failure and failure.what == "weights" else None


def _by_layers(case: Case) -> Found | Absent:
    """How many more layers would fit at the context that is used."""
    context, used = case.runtime.context_length.need(), case.runtime.longest_sequence.value_or(0)
    # Tokens that the context must hold: for every slot as many, unless they share one cache
    for_one = case.wish.context_tokens.value_or(max(SHORTEST_USEFUL, HEADROOM * used))
    needed = int(for_one * (1 if case.runtime.kv_unified.value_or(default=True) else case.runtime.slots.value_or(1)))
    cache = kv_per_token(case) * context
    if not layers_left_on_host(case):
        return Absent(f"the KV cache of {cache / GIB:.1f} GiB leaves all layers on the GPU")
    known = first_known(case.wish.context_tokens, case.runtime.longest_sequence)
    if not isinstance(known, Known):
        asked = msgspec.structs.replace(known, how_to_get=known.how_to_get or TELL)
        raise MissingFactError(asked, "wish.context_tokens")
    if needed >= context:
        return Absent(f"{context} tokens are configured, {needed} needed")
    shape, demand = read_shape(case), read_demand(case)
    if demand.lacking <= 0:
        return Absent(f"there was room for it: {demand.available / GIB:.1f} GiB free")
    if _fits_with_flash_attention(case):
        return Absent(f"with flash attention on all {context} tokens fit")
    then = fitting_placement(case, shape, demand.available, needed)
    fitting = int(then.gpu_layers) + then.output_on_gpu
    now = counted_layers(case).on_gpu
    cure = Cure(vram_bytes=demand.available, context=needed)
    if not brings_back_enough(case, cure, fitting - now, layers_left_on_host(case)):
        return Absent(f"even at {needed} tokens {'only' if fitting > now else 'no more than'} {fitting} layers fit")
    wanted = "wish.context_tokens" if case.wish.context_tokens.value_or(0) else "runtime.longest_sequence"
    enough = fitting > shape.layers
    return Found(
        because=f"the KV cache for {context} tokens takes {cache / GIB:.1f} GiB; at {needed} tokens {fitting} of "
        f"{shape.layers + 1} layers fit on the GPU instead of {now}",
        evidence=(cite(case, "runtime.context_length", f"{needed} tokens needed"), cite(case, wanted)),
        cure=cure,
        remedies=(
            Remedy(Knob.CONTEXT_LENGTH.to(needed, "a shorter context frees GPU memory"), cure, "long chats are cut"),
        ),
        explains=("weights_spill_to_ram", "other_process_holds_vram") if enough else ("weights_spill_to_ram",),
    )


def _fits_with_flash_attention(case: Case) -> bool:
    """Whether it is the buffer for scores of attention that is not fused, and not the cache, that leaves no room."""
    if case.runtime.flash_attention.value_or(default=True) is not False:
        return False
    if plan_of(case):
        return read_demand(with_settings(case, Cure(flash_attention=True))).lacking <= 0
    context = first_known(case.runtime.context_length, case.runtime.context_set).need()
    cache = case.runtime.kv_bytes.value if isinstance(case.runtime.kv_bytes, Known) else kv_per_token(case) * context
    return case.model.weights_bytes.need() + cache + margin_bytes(case) <= available_vram_bytes(case)


def _by_reckoning(case: Case) -> Found | Absent | None:
    """By the runtime's own sums: all of it does not fit, and the weights without so long a context would."""
    runtime = case.runtime
    asked, available = runtime.asked_bytes.need(), available_vram_bytes(case)
    context = first_known(runtime.context_length, runtime.context_set).need()
    if asked <= available:
        return Absent(f"all of it fits: {asked / GIB:.1f} GiB asked, {available / GIB:.1f} GiB free")
    if _fits_with_flash_attention(case):
        return Absent(f"with flash attention on all {context} tokens fit")
    # What is left of the sum without the cache; the file's own size where it is known
    known = case.model.weights_bytes.value_or(0)
    weights = float(known or asked - case.runtime.kv_bytes.need())
    if weights > available:
        return Absent(f"the weights alone ask for {weights / GIB:.1f} GiB, and {available / GIB:.1f} GiB were free")
    fitting = int(context * (available - weights) / max(1.0, asked - weights)) // _STEP * _STEP
    wanted = max(case.wish.context_tokens.value_or(0), runtime.longest_sequence.value_or(0), SHORTEST_USEFUL)
    if wanted >= context:
        return Absent(f"{context} tokens are configured, {wanted} needed")
    change = Knob.CONTEXT_LENGTH.to(max(SHORTEST_USEFUL, fitting), "what fits beside the weights")
    return Found(
        because=f"the weights take {weights / GIB:.1f} GiB of the {available / GIB:.1f} GiB that were free; the KV "
        f"cache and the buffers for {context} tokens make it {asked / GIB:.1f} GiB",
        evidence=(cite(case, "runtime.asked_bytes", f"{available / GIB:.1f} GiB free"), cite(case, _where_set(case))),
        cure=Cure(vram_bytes=available, context=SHORTEST_USEFUL),
        remedies=(Remedy(change, Cure(vram_bytes=available, context=fitting), "long chats are cut"),),
    )


def _by_sizes(case: Case) -> Found | None:
    """By what the loaded model takes in all: what of it is on the GPU is more than the weights are."""
    grown, name = grown_beyond_weights(case), _where_set(case)
    if grown is None or not name or fact_at(case, name).need() < LONG:
        return None
    context = fact_at(case, name)
    return Found(
        because=f"the model takes {grown.size / GIB:.0f} GiB with a context of {context.need()} tokens, its weights "
        f"about {grown.weights / GIB:.0f} GiB: they alone would fit where {grown.on_gpu / GIB:.0f} GiB are on the GPU",
        evidence=(cite(case, "runtime.size_bytes", f"{grown.weights / GIB:.0f} GiB of weights"), cite(case, name)),
        remedies=(shorter_context(case) or _AS_LONG_AS_USED, HALF_CACHE),
    )


def _by_room(case: Case) -> Found | None:
    """A split model whose weights alone would leave room on the GPU, with a context as long as few ever use."""
    split, name, vram = seen_split(case), _where_set(case), vram_total_bytes(case)
    weights = float(case.model.weights_bytes.value_or(0))
    if not split or not name or not vram or not weights or set_on_purpose(case) or lost_since_a_version(case):
        return None
    context = fact_at(case, name).need()
    if (
        context < VERY_LONG
        or _fits_with_flash_attention(case)
        or weights > ROOMY * vram
        or remarks_on(case, Topic.OTHER_VRAM_USER, Topic.VRAM_FREE)
    ):
        return None
    return Found(
        because=f"{split.words} with a context of {context} tokens, and the weights of {weights / GIB:.0f} GiB alone "
        f"would leave room on a GPU of {vram / GIB:.0f} GiB",
        evidence=(cite(case, name, f"{weights / GIB:.0f} GiB of weights"), cite(case, split.fact)),
        remedies=(shorter_context(case) or _AS_LONG_AS_USED,),
    )


def _where_set(case: Case) -> str:
    """The fact that tells the context: as it runs, as it was asked for, or as it is where nobody asks."""
    names = ("runtime.context_length", "runtime.context_set", "runtime.context_default")
    return next((name for name in names if isinstance(fact_at(case, name), Known)), "")


def _by_trial(case: Case) -> Found | None:
    """Two speeds with two settings of the context: one that is only set costs nothing, unless it drives weights out."""
    trial = experiment_on(case, Topic.CONTEXT, metrics=("decode",))
    if trial is None or trial.worded or told_ratio(trial) < DRIVEN_OUT or not _SETTING.search(trial.text):
        return None
    if slow_side_has_more(trial, Topic.CONTEXT) is False:
        return None
    return Found(
        because=f"with a shorter context set it is {told_ratio(trial):.1f} times as fast: {trial.text}",
        evidence=(cite_comparison(case, trial),),
        remedies=(shorter_context(case) or _AS_LONG_AS_USED,),
        speedup=told_ratio(trial),
    )


CAUSE = Cause(
    title="The context is larger than needed",
    phase="decode",
    needs=(
        (
            "runtime.context_length",
            "runtime.context_set",
            "runtime.context_default",
            "runtime.allocation_failure",
            "account.comparisons",
        ),
        (
            "wish.context_tokens",
            "runtime.longest_sequence",
            "runtime.asked_bytes",
            "runtime.size_bytes",
            "model.weights_bytes",
            "runtime.allocation_failure",
            "account.comparisons",
        ),
        (
            "runtime.gpu_layers",
            "runtime.allocation_failure",
            "machine.gpus.0.processes",
            "runtime.asked_bytes",
            "runtime.size_bytes",
            "account.comparisons",
        ),
    ),
    check=check_by(_by_failure, _by_layers, _by_reckoning, _by_sizes, _by_trial, _by_room),
    on_gpu=True,
    fails_load=True,
    gpu_only=True,
    explains=("weights_spill_to_ram",),
    ask="{placement}; and the size of the KV cache, which the same log shows",
)
