"""The GPU backend has no kernel for a type of the weights or of the KV cache, so the CPU computes it.

## Why it is slow
A backend that lacks an operation for a type hands it to the CPU, in silence: all layers count as on the GPU, and yet
part of each token is computed by the CPU, with copies there and back. For a type of the KV cache the whole cache is
copied, so it gets worse with every token of the chat.

Guides advise a quantised cache, but only some types have kernels: with CUDA a q4_1 cache is smaller than one of q8_0
and can be ten times slower.

## How to confirm
`graph splits` in the dozens while all layers are on the GPU, or a GPU buffer of a few MiB beside `offloaded 33/33`.
With CUDA the usual cases are a KV cache of q4_1, q5_0, q5_1 or of two unlike types with flash attention, and BF16
weights before January 2025 (llama.cpp pull request 11093). Until September 2026 only f16, bf16, q8_0 and q4_0 of both
had kernels unless the build had `GGML_CUDA_FA_ALL_QUANTS`; later builds convert the others to F16 on the GPU, which
costs little. An iq4_nl cache has none in any build.

## What it is not
The type alone, which proves nothing: builds differ. Nor the few splits of a graph that several GPUs, or a token table
on the host, bring along.

## How to fix
A type that has kernels, the same for keys and values:
- llama.cpp: `-ctk q8_0 -ctv q8_0` (or q4_0); or build it with `-DGGML_CUDA_FA_ALL_QUANTS=ON`
- Ollama: `OLLAMA_KV_CACHE_TYPE=q8_0`; LM Studio: Q8_0 for both caches in the load settings
- BF16 weights: F16 or a quant of the model, or a newer build
- vLLM, SGLang, Transformers refuse a type without kernels when they load, instead of computing it on the CPU

## Safety
Another type changes the answers slightly.
"""

import re

from unslow.facts.account import Comparison, Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.think.case.bandwidth import backend_name
from unslow.think.case.demand import is_mixture
from unslow.think.case.narrative import remarks_on, slow_side_has, slow_side_names, told_ratio, tried
from unslow.think.case.overrides import sent_away
from unslow.think.case.runtime import NEWEST, build_number
from unslow.think.case.vram import buffers_of, gpus_of
from unslow.think.causes._cache_kernels import OTHER_TYPE, by_cache, on_cuda, usually_lacks_kernels
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._facts import cite, cite_comparison, cite_remarks, if_slow

_RARE_CACHE = re.compile(r"\bq4_1\b|\bq5_[01]\b|\biq4_nl\b", re.IGNORECASE)
BF16_SINCE = 4400  # Builds of llama.cpp below it certainly compute BF16 on the CPU (pull request 11093, January 2025)
_BF16 = re.compile(r"\bbf16\b|\bbfloat16\b", re.IGNORECASE)
_RARE_WEIGHTS = re.compile(r"\bbf16\b|\bbfloat16\b|\biq[1-4]_\w+|\btq[12]_0\b|\bmxfp4\b|\bnvfp4\b", re.IGNORECASE)
"""Types of weights that backends got kernels for late, some to this day."""
VULKAN_FLASH_SINCE = 5336  # The build of llama.cpp from which Vulkan has flash attention on any GPU (May 2025)
_LACKS = re.compile(r"unsupported op|not supported by (?:the )?(?:backend|gpu)|falling back to cpu", re.IGNORECASE)
_SWITCHED_OFF = re.compile(r"flash attention", re.IGNORECASE)
"""What a runtime does without where the GPU lacks it: it is then off, and nothing of it runs on the CPU."""
CLEARLY = 3.0  # Times slower than another type: no matter of bytes, where the types are of like size
SLOWER_CACHE = 1.5  # Times as fast with another type of cache: kernels for all types differ by less
MANY_SPLITS = 0.9  # Of the layers: an operation of each of them runs elsewhere
TINY = 0.05  # Of the host's part: then the GPU holds no weights to speak of


def check(case: Case) -> Found | Absent | Suspected:
    """Look for an experiment, for work that left the GPU, and for types that are known to lack kernels."""
    return first_to_decide(
        case, _by_trial, _by_word_of_the_backend, _by_buffers, _by_splits, by_cache, _by_weights, _all_have_kernels
    )


def _by_word_of_the_backend(case: Case) -> Found | None:
    """The runtime itself names operations that its GPU backend lacks."""
    said = remarks_on(case, Topic.OPERATION_ON_CPU)
    warned = [
        line for line in case.runtime.warnings.value_or([]) if _LACKS.search(line) and not _SWITCHED_OFF.search(line)
    ]
    if not said and not warned:
        return None
    shown = cite_remarks(case, said[:2]) or (cite(case, "runtime.warnings"),)
    change = Knob.GPU_BACKEND.to(None, "a newer build, or a backend that has the operation")
    because = f"operations run on the CPU, because the GPU's backend lacks them: {said[0].text if said else warned[0]}"
    return Found(because, shown, None, (Remedy(change), Remedy(OTHER_TYPE)))


def _by_trial(case: Case) -> Found | None:
    """Two speeds that differ in nothing but the type."""
    cache = tried(case, Topic.KV_TYPE, Topic.FLASH_ATTENTION, Topic.QUANT_TYPE)
    weights = tried(case, Topic.QUANT_TYPE)
    if cache and (told_ratio(cache) >= CLEARLY or (told_ratio(cache) >= SLOWER_CACHE and _is_rare(case, cache))):
        return _tried(case, cache, "of the KV cache", Remedy(OTHER_TYPE, None, "answers change slightly"))
    attention = tried(case, Topic.FLASH_ATTENTION)
    if attention and _lacks_flash_attention(case) and slow_side_has(attention, Topic.FLASH_ATTENTION):
        change = Knob.FLASH_ATTENTION.to(value=False, why="this build computes it on the CPU")
        return _tried(case, attention, "of attention", Remedy(change))
    rare = weights and _RARE_WEIGHTS.search(f"{weights.text} {case.model.quant.value_or('')}")
    if weights and rare and slow_side_names(weights, _RARE_WEIGHTS) is not False and told_ratio(weights) >= CLEARLY:
        return _tried(case, weights, "of the weights", Remedy(Knob.QUANT.to("F16", "a type that has kernels")))
    return None


def _lacks_flash_attention(case: Case) -> bool:
    """Whether flash attention is on, on a Vulkan that has no kernel for it on most GPUs: it then runs on the CPU."""
    version = case.runtime.version.value_or("")
    named = "Vulkan" in case.runtime.backends.value_or([]) or backend_name(case) == "vulkan"
    on = case.runtime.flash_attention.value_or(default=False)
    return on and named and build_number(version) < VULKAN_FLASH_SINCE


def _tried(case: Case, trial: Comparison, whose: str, remedy: Remedy) -> Found:
    faster = told_ratio(trial)
    because = f"with another type {whose} it is {faster:.1f} times faster, far more than its bytes explain"
    return Found(because, (cite_comparison(case, trial),), None, (remedy,), speedup=faster)


def _is_rare(case: Case, trial: Comparison) -> bool:
    named = _RARE_CACHE.search(trial.text) and slow_side_names(trial, _RARE_CACHE) is not False
    return bool(named) or usually_lacks_kernels(case)


def _by_buffers(case: Case) -> Found | None:
    """All layers counted on the GPU, and next to nothing allocated there."""
    runtime = case.runtime
    gpu = sum(b.bytes for b in buffers_of(case, "model", on_gpu=True))
    host = sum(b.bytes for b in buffers_of(case, "model", on_gpu=False))
    if not _all_on_gpu(case) or not gpu or gpu > TINY * host or is_mixture(case):
        return None  # of a mixture it is experts that lie there
    because = (
        f"{runtime.gpu_layers.need()} layers count as on the GPU, and it holds {gpu / (gpu + host):.1%} of the weights"
    )
    change = Knob.QUANT.to(None, "a type of weights that has kernels on this GPU")
    return Found(because, (cite(case, "runtime.gpu_layers"), cite(case, "runtime.buffers")), None, (Remedy(change),))


def _by_splits(case: Case) -> Found | None:
    """Work that leaves the GPU in every layer though everything lies on it."""
    splits, layers = case.runtime.graph_splits.value_or(0), case.runtime.layers.value_or(0)
    away = buffers_of(case, "kv", on_gpu=False) or case.runtime.kv_offload.value_or(default=True) is False
    host, gpu = (sum(b.bytes for b in buffers_of(case, "model", on_gpu=side)) for side in (False, True))
    away = away or host > gpu  # tensors of layers that count as on the GPU lie elsewhere
    away = away or (not host + gpu and is_mixture(case))  # experts may, where nobody printed the buffers
    if not _all_on_gpu(case) or away or len(gpus_of(case)) > 1 or splits < MANY_SPLITS * max(2, layers):
        return None
    keys, values = (fact.value_or("f16") for fact in (case.runtime.kv_type_k, case.runtime.kv_type_v))
    kinds = f"{keys} keys, {values} values, {case.model.quant.value_or('unknown')} weights"
    return Found(
        because=f"everything lies on the GPU, and each token crosses to the CPU {splits} times: an operation has no "
        f"kernel there ({kinds})",
        evidence=(cite(case, "runtime.graph_splits", "2 where all of it runs on the GPU"),),
        remedies=(Remedy(OTHER_TYPE), Remedy(Knob.QUANT.to(None, "a type of weights that has kernels on this GPU"))),
    )


def _all_on_gpu(case: Case) -> bool:
    runtime = case.runtime
    layers = runtime.layers.value_or(0)
    whole = layers > 0 and runtime.gpu_layers.value_or(0) >= layers and not runtime.overflowing_layers.value_or(0)
    return whole and not any(sent_away(case))


def _by_weights(case: Case) -> Found | Absent | Suspected | None:
    """BF16 weights on a build that has no kernels for them."""
    if not _BF16.search(case.model.quant.value_or("")) or not on_cuda(case):
        return None
    version = build_number(case.runtime.version.value_or(""))
    if version >= BF16_SINCE:
        return Absent("this build computes BF16 on the GPU") if version < NEWEST else None
    because = "the weights are BF16, which this build computes on the CPU"
    remedy = Remedy(Knob.QUANT.to("F16", "a type that has kernels, or a newer build"))
    suspected = Suspected(because, "the speed with another type", CAUSE.ask)
    return if_slow(case, cite(case, "model.quant"), remedy, suspected)


def _all_have_kernels(case: Case) -> Absent | None:
    runtime = case.runtime
    unknown = [f for f in (runtime.kv_type_k, runtime.kv_type_v, case.model.quant) if isinstance(f, Unknown)]
    bf16 = _BF16.search(case.model.quant.value_or(""))
    return None if unknown or bf16 or usually_lacks_kernels(case) else Absent("weights and KV cache have kernels")


CAUSE = Cause(
    title="A type has no kernel on the GPU",
    phase="decode",
    needs=(
        (
            "runtime.kv_type_k",
            "runtime.kv_type_v",
            "model.quant",
            "runtime.graph_splits",
            "runtime.buffers",
            "runtime.warnings",
            "account.comparisons",
            "account.remarks",
        ),
    ),
    check=check,
    on_gpu=True,
    ggml_only=True,
    explains=(
        "prefill_batch_too_small",
        "sampling_on_cpu",
        "cpu_round_trip_bound",
        "flash_attention_off",
        "slow_kernel_for_architecture",
    ),
    gpu_only=True,
    ask="{try_kv_type}",
)
