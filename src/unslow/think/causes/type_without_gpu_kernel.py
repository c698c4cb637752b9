"""The GPU backend has no kernel for a type of the weights or of the KV cache, so the CPU computes it.

## Why it is slow
A backend that lacks an operation for a type hands it to the CPU without a message: all layers count as on the GPU, yet
the CPU computes part of each token, with copies there and back. For a type of the KV cache the whole cache is copied,
so it gets worse with every token of the chat.

Guides advise a quantized cache, but only some types have kernels: with CUDA a q4_1 cache is smaller than a q8_0 one
and can be ten times slower.

## How to confirm
`graph splits` in the dozens while all layers are on the GPU, or a GPU buffer of a few MiB beside `offloaded 33/33`.
With CUDA the usual cases are a KV cache of q4_1, q5_0, q5_1 or of two different types with flash attention, and BF16
weights before January 2025 (llama.cpp pull request 11093). Until September 2026 only f16, bf16, q8_0 and q4_0 for both
had kernels unless the build had `GGML_CUDA_FA_ALL_QUANTS`; later builds convert the others to F16 on the GPU, which
costs little. An iq4_nl cache has none in any build.

## What it is not
The type alone, which proves nothing: builds differ. Nor the few graph splits that several GPUs, or a token table on
the host, cause.

## How to fix
Use a type that has kernels, the same for keys and values:
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
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.engine import CONVERTED_KV_TYPES, NEWEST, build_number
from unslow.think.case.narrative import slow_side_has, slow_side_names, told_ratio
from unslow.think.case.speed import BEYOND, TRY_IT, Prediction
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding

_RARE_CACHE = re.compile(r"(?i)\bq4_1\b|\bq5_[01]\b|\biq4_nl\b")
_BF16 = re.compile(r"(?i)\bbf16\b|\bbfloat16\b")
_RARE_WEIGHTS = re.compile(r"(?i)\bbf16\b|\bbfloat16\b|\biq[1-4]_\w+|\btq[12]_0\b|\bmxfp4\b|\bnvfp4\b")
"""Types of weights that backends got kernels for late, some to this day."""
_LACKS = re.compile(r"(?i)unsupported op|not supported by (?:the )?(?:backend|gpu)|falling back to cpu")
_CONVERTS_KV = re.compile(r"converting K and V to f16", re.IGNORECASE)
_DISABLED = re.compile(r"(?i)flash attention")
"""What a runtime disables where the GPU lacks it: then none of it runs on the CPU."""
BF16_SINCE = 4400  # Builds of llama.cpp below it certainly compute BF16 on the CPU (pull request 11093, January 2025)
VULKAN_FLASH_SINCE = 5336  # The build of llama.cpp from which Vulkan has flash attention on any GPU (May 2025)
LACKING_UNTIL = 10819
"""Usual builds of llama.cpp up to it were seen to compute other KV types on the CPU (issue 28455, September 2026)."""
CLEARLY = 3.0  # Times slower than another type: more than bytes explain, where the types are of similar size
SLOWER_CACHE = 1.5  # Times as fast with another type of cache: kernels for all types differ by less
MANY_SPLITS = 0.9  # Of the layers: an operation of each of them runs elsewhere
TINY = 0.05  # Of the weights on the host: then the GPU holds next to nothing
FAR_BELOW = 2.0
"""Times below the lowest expected prefill speed: attention on the CPU slows it down 8 to 30 times (issue 27109)."""
_Q8_0 = Knob.KV_CACHE_TYPE.to("q8_0", "use a type that has kernels, the same for keys and values")
_OTHER_CACHE = Remedy(_Q8_0, None, "answers change slightly")
_OTHER_WEIGHTS = Knob.QUANT.to(None, "use a type of weights that has kernels on this GPU")


def faster_with_other_cache(case: CaseView) -> Found | None:
    """Two speeds that differ only in the type of the KV cache."""
    trial = case.narrative.trial_of(Topic.KV_TYPE, Topic.FLASH_ATTENTION, Topic.QUANT_TYPE)
    if trial is None:
        return None
    is_rare = _RARE_CACHE.search(trial.text) and slow_side_names(trial, _RARE_CACHE) is not False
    least = SLOWER_CACHE if is_rare or case.engine.lacks_kv_kernels else CLEARLY
    return _faster_with(case, trial, "the KV cache", _OTHER_CACHE) if told_ratio(trial) >= least else None


def slower_with_flash_attention(case: CaseView) -> Found | None:
    """A Vulkan build without a kernel for flash attention on most GPUs, and two speeds that show it."""
    trial = case.narrative.trial_of(Topic.FLASH_ATTENTION)
    on_vulkan = "Vulkan" in (case.runtime.build.backends.get() or ()) or case.gpus.backend == "vulkan"
    is_old = build_number(case.runtime.version.get() or "") < VULKAN_FLASH_SINCE
    if trial is None or not on_vulkan or not is_old or not case.runtime.compute.flash_attention.get():
        return None
    if not slow_side_has(trial, Topic.FLASH_ATTENTION):
        return None
    change = Knob.FLASH_ATTENTION.to(value=False, why="disable flash attention, which this build computes on the CPU")
    faster = told_ratio(trial)
    because = f"without flash attention, which has no kernel in this build, it is {faster:.1f} times faster"
    return finding(case, because, fixes=[change], trial=trial, speedup=faster)


def faster_with_other_weights(case: CaseView) -> Found | None:
    """Two speeds that differ only in the type of the weights."""
    trial = case.narrative.trial_of(Topic.QUANT_TYPE)
    if trial is None or not _RARE_WEIGHTS.search(f"{trial.text} {case.model.quant.get() or ''}"):
        return None
    if slow_side_names(trial, _RARE_WEIGHTS) is False or told_ratio(trial) < CLEARLY:
        return None
    return _faster_with(case, trial, "the weights", Remedy(Knob.QUANT.to("F16", "use a type that has kernels")))


def backend_message(case: CaseView) -> Found | None:
    """The runtime itself names operations that its GPU backend lacks."""
    said = case.narrative.remarks_on(Topic.OPERATION_ON_CPU)
    warned = [line for line in case.engine.warnings if _LACKS.search(line) and not _DISABLED.search(line)]
    if not said and not warned:
        return None
    change = Knob.GPU_BACKEND.to(None, "use a newer build, or a backend that has the operation")
    return finding(
        case,
        f"operations run on the CPU because the GPU backend lacks them: {said[0].text if said else warned[0]}",
        case.narrative.cite_remarks(said[:2]) or "runtime.history.warnings",
        fixes=[change, _Q8_0],
    )


def tiny_gpu_buffer(case: CaseView) -> Found | None:
    """All layers count as on the GPU, and next to nothing is allocated there."""
    gpu, host = (sum(b.bytes for b in case.vram.buffers("model", on_gpu=side)) for side in (True, False))
    if not case.placement.counts_all_on_gpu or not gpu or gpu > TINY * host or case.memory.is_mixture:
        return None  # of a mixture the experts are on the host
    layers = case.need("runtime.placement.gpu_layers")
    because = f"{layers} layers count as on the GPU, but it holds only {gpu / (gpu + host):.1%} of the weights"
    return finding(case, because, "runtime.placement.gpu_layers", "runtime.memory.buffers", fixes=[_OTHER_WEIGHTS])


def graph_splits(case: CaseView) -> Found | None:
    """Work that leaves the GPU in every layer though everything is on the GPU."""
    splits, layers = case.runtime.placement.graph_splits.get(), case.runtime.placement.layers.get()
    if not splits or not layers or not case.placement.counts_all_on_gpu or len(case.gpus.usable) > 1:
        return None
    gpu, host = (sum(b.bytes for b in case.vram.buffers("model", on_gpu=side)) for side in (True, False))
    cache_away = case.vram.buffers("kv", on_gpu=False) or case.runtime.cache.offload.get() is False
    # Tensors of layers that count as on the GPU are elsewhere; experts may be where the buffers are not known
    weights_away = host > gpu or (not host + gpu and case.memory.is_mixture)
    if cache_away or weights_away or splits < MANY_SPLITS * max(2, layers):
        return None
    keys, values = case.memory.cache_types
    types = f"{keys} keys, {values} values, {case.model.quant.get() or 'unknown'} weights"
    return finding(
        case,
        f"everything is on the GPU, but each token crosses to the CPU {splits} times: an operation has no GPU kernel "
        f"({types})",
        case.cite("runtime.placement.graph_splits", "2 where everything runs on the GPU"),
        fixes=[_Q8_0, _OTHER_WEIGHTS],
    )


def cache_is_converted(case: CaseView) -> Absent | None:
    """A build that says it has kernels for all types of the KV cache, or converts them on the GPU."""
    features = " ".join(case.runtime.build.features.get() or ()).upper()
    if not case.engine.kv_kernel_gap or not set(case.engine.kv_types) <= CONVERTED_KV_TYPES:
        return None
    if "FA_ALL_QUANTS" in features:
        return Absent("the build has kernels for all types of the KV cache")
    converts = any(_CONVERTS_KV.search(line) for line in case.engine.warnings) or "FA_QUANTS" in features
    return Absent("the build converts such a KV cache to F16 on the GPU") if converts else None


def long_prompt(case: CaseView) -> Found | None:
    """A long prompt that was read far slower than expected, with a KV cache that usual builds have no kernel for."""
    gap = case.engine.kv_kernel_gap
    if not gap or case.narrative.is_report:
        return None
    measured, expected = case.speed.prompt_speed, case.speed.predict_prefill()
    if not isinstance(measured, Known) or not isinstance(expected, Prediction):
        return None
    rate = expected.tokens_per_s
    if measured.value * FAR_BELOW > rate.low:
        return None
    because = f"{gap}: prefill runs at {measured.value:.0f} tok/s, where {rate.mid:.0f} is expected"
    speed = case.cite(case.speed.prompt_fact, f"{rate.mid:.0f} tok/s")
    return finding(case, because, case.engine.kv_type_fact, speed, cure=Cure(), fixes=[_OTHER_CACHE])


def two_depths(case: CaseView) -> Found | Absent | None:
    """How far decode slows down with depth: such a cache costs more with every token in it."""
    gap = case.engine.kv_kernel_gap
    if not gap:
        return None
    fall = case.speed.fall_with_depth()
    if fall.beyond < BEYOND:
        return Absent(f"decode slows down with depth as expected: {fall.words}")
    shown_by = case.engine.kv_type_fact, case.cite("run.depths", words=fall.words)
    return finding(case, f"{gap}: {fall.words}", *shown_by, fixes=[_OTHER_CACHE], speedup=fall.beyond)


def cache_type(case: CaseView) -> Found | Suspected | None:
    """A KV cache type that builds of this age have no kernel for, and a speed that is too low."""
    gap, build = case.engine.kv_kernel_gap, build_number(case.runtime.version.get() or "")
    if not gap:
        return None
    is_lacking = build <= LACKING_UNTIL or not set(case.engine.kv_types) <= CONVERTED_KV_TYPES
    if is_lacking or (case.narrative.is_report and build == NEWEST):
        answer = _if_slow(case, gap, case.engine.kv_type_fact, _OTHER_CACHE)
        if not isinstance(answer, Absent):
            return answer
    return Suspected(gap, "run.depths", TRY_IT)


def bf16_weights(case: CaseView) -> Found | Absent | Suspected | None:
    """BF16 weights in a build that has no kernels for them."""
    if not _BF16.search(case.model.quant.get() or "") or not case.engine.uses_cuda_kernels:
        return None
    build = build_number(case.runtime.version.get() or "")
    if build >= BF16_SINCE:
        return Absent("this build computes BF16 on the GPU") if build < NEWEST else None
    fix = Remedy(Knob.QUANT.to("F16", "use a type that has kernels, or a newer build"))
    return _if_slow(case, "the weights are BF16, which this build computes on the CPU", "model.quant", fix)


def types_with_kernels(case: CaseView) -> Absent | None:
    """Known types of weights and cache, all of which have kernels."""
    quant, cache = case.model.quant.get(), case.runtime.cache
    is_known = quant is not None and isinstance(cache.type_k, Known) and isinstance(cache.type_v, Known)
    if not is_known or _BF16.search(quant or "") or case.engine.lacks_kv_kernels:
        return None
    return Absent("weights and KV cache have kernels")


def _faster_with(case: CaseView, trial: Comparison, what: str, fix: Remedy) -> Found:
    faster = told_ratio(trial)
    because = f"with another type of {what} it is {faster:.1f} times faster, far more than its bytes explain"
    return finding(case, because, fixes=[fix], trial=trial, speedup=faster)


def _if_slow(case: CaseView, because: str, fact: str, fix: Remedy) -> Found | Absent | Suspected:
    """A known mechanism is the cause where decode is slow, and a suspicion where that is not known."""
    slow = True if case.narrative.is_report else case.speed.is_slow
    if slow is None:
        return Suspected(because, "the speed with another type", CAUSE.ask)
    if not slow:
        return Absent("decode is as fast as expected")
    cure = None if case.narrative.is_report else Cure()
    return finding(case, because, fact, cure=cure, fixes=[fix._replace(cure=cure)])


CAUSE = Cause(
    title="A data type has no GPU kernel",
    phase="decode",
    needs=all_of(
        "runtime.cache.type_k or runtime.cache.type_v or model.quant or runtime.placement.graph_splits or "
        "runtime.memory.buffers or runtime.history.warnings or account.comparisons or account.remarks"
    ),
    routes=(
        Route("told", faster_with_other_cache),
        Route("told", slower_with_flash_attention),
        Route("told", faster_with_other_weights),
        Route("log", backend_message),
        Route("log", tiny_gpu_buffer),
        Route("log", graph_splits),
        Route("log", cache_is_converted),
        Route("measured", long_prompt),
        Route("measured", two_depths),
        Route("counted", cache_type),
        Route("counted", bf16_weights),
        Route("counted", types_with_kernels),
    ),
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
