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
from unslow.facts.values import Known, MissingFactError, Unknown
from unslow.think.case.bandwidth import backend_name
from unslow.think.case.demand import is_mixture
from unslow.think.case.narrative import is_report, remarks_on, slow_side_has, slow_side_names, told_ratio, tried
from unslow.think.case.overrides import sent_away
from unslow.think.case.prediction import Prediction, predict_prefill
from unslow.think.case.runtime import NEWEST, build_number, runs_ggml
from unslow.think.case.slowness import generates_slowly
from unslow.think.case.vram import buffers_of, gpus_of
from unslow.think.case.work import Cure, prompt_speed
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, check_by
from unslow.think.causes._evidence import BEYOND, TRY_IT, fall_with_depth
from unslow.think.causes._facts import cite, cite_comparison, cite_remarks
from unslow.think.report import Evidence

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

# Whether the CUDA backend of llama.cpp has kernels for the types of a KV cache: by the types, the build and its word.
# Where it lacks them it computes attention on the CPU, unless it is a newer build, which converts the cache to F16.

WITH_KERNELS = {("f16", "f16"), ("q8_0", "q8_0"), ("q4_0", "q4_0"), ("bf16", "bf16"), ("f32", "f32")}
"""Types of keys and values that every CUDA build of llama.cpp has (GGML_CUDA_FA_QUANTS of its CMakeLists)."""
CONVERTED = {"f16", "f32", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"}
"""Types that newer CUDA builds have kernels for or convert to F16 (ggml_cuda_fattn_kv_type_supported); not iq4_nl."""
LACKING_UNTIL = 10819
"""Usual builds of llama.cpp up to it were seen to compute the others on the CPU (issue 28455, September 2026)."""
_SAYS_THAT_IT_CONVERTS = re.compile(r"converting K and V to f16", re.IGNORECASE)
_OTHER_BACKENDS = {"Vulkan", "SYCL", "Metal", "OpenCL"}
FAR_BELOW = 2.0
"""Times below the least that prompts should reach: attention on the CPU slows them 8 to 30 times (issue 27109)."""
OTHER_TYPE = Knob.KV_CACHE_TYPE.to("q8_0", "a type that has kernels, for keys and values alike")


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
    named = cache and _RARE_CACHE.search(cache.text) and slow_side_names(cache, _RARE_CACHE) is not False
    least = SLOWER_CACHE if named or _usually_lacks_kernels(case) else CLEARLY
    if cache and told_ratio(cache) >= least:
        return _tried(case, cache, "of the KV cache", Remedy(OTHER_TYPE, None, "answers change slightly"))
    attention = tried(case, Topic.FLASH_ATTENTION)
    # A Vulkan that has no kernel for flash attention on most GPUs: it then runs on the CPU
    on_vulkan = "Vulkan" in case.runtime.backends.value_or([]) or backend_name(case) == "vulkan"
    old = on_vulkan and build_number(case.runtime.version.value_or("")) < VULKAN_FLASH_SINCE
    lacks = old and case.runtime.flash_attention.value_or(default=False)
    if attention and lacks and slow_side_has(attention, Topic.FLASH_ATTENTION):
        change = Knob.FLASH_ATTENTION.to(value=False, why="this build computes it on the CPU")
        return _tried(case, attention, "of attention", Remedy(change))
    rare = weights and _RARE_WEIGHTS.search(f"{weights.text} {case.model.quant.value_or('')}")
    if weights and rare and slow_side_names(weights, _RARE_WEIGHTS) is not False and told_ratio(weights) >= CLEARLY:
        return _tried(case, weights, "of the weights", Remedy(Knob.QUANT.to("F16", "a type that has kernels")))
    return None


def _tried(case: Case, trial: Comparison, whose: str, remedy: Remedy) -> Found:
    faster = told_ratio(trial)
    because = f"with another type {whose} it is {faster:.1f} times faster, far more than its bytes explain"
    return Found(because, (cite_comparison(case, trial),), None, (remedy,), speedup=faster)


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
    if not _BF16.search(case.model.quant.value_or("")) or not _on_cuda(case):
        return None
    version = build_number(case.runtime.version.value_or(""))
    if version >= BF16_SINCE:
        return Absent("this build computes BF16 on the GPU") if version < NEWEST else None
    because = "the weights are BF16, which this build computes on the CPU"
    remedy = Remedy(Knob.QUANT.to("F16", "a type that has kernels, or a newer build"))
    suspected = Suspected(because, "the speed with another type", CAUSE.ask)
    return _if_slow(case, cite(case, "model.quant"), remedy, suspected)


def _all_have_kernels(case: Case) -> Absent | None:
    runtime = case.runtime
    unknown = [f for f in (runtime.kv_type_k, runtime.kv_type_v, case.model.quant) if isinstance(f, Unknown)]
    bf16 = _BF16.search(case.model.quant.value_or(""))
    return None if unknown or bf16 or _usually_lacks_kernels(case) else Absent("weights and KV cache have kernels")


def _cache_types(case: Case) -> tuple[str, str]:
    """The types of keys and values; where one is unknown, the other's; empty where both are."""
    keys, values = case.runtime.kv_type_k.value_or(""), case.runtime.kv_type_v.value_or("")
    return (keys or values).lower(), (values or keys).lower()


def _usually_lacks_kernels(case: Case) -> bool:
    """Whether a usual build has no kernel for flash attention with such a cache."""
    kinds = _cache_types(case)
    return all(kinds) and kinds not in WITH_KERNELS and case.runtime.flash_attention.value_or(default=True)


def _way_around(case: Case) -> str:
    """How this very build computes such a cache on the GPU all the same, by its own word; empty where it says none."""
    features = " ".join(case.runtime.build_features.value_or([])).upper()
    if not set(_cache_types(case)) <= CONVERTED:
        return ""
    if "FA_ALL_QUANTS" in features:
        return "the build has kernels for all types of the KV cache"
    converts = any(_SAYS_THAT_IT_CONVERTS.search(line) for line in case.runtime.warnings.value_or([]))
    return "the build converts such a KV cache to F16 on the GPU" if converts or "FA_QUANTS" in features else ""


def _on_cuda(case: Case) -> bool:
    """Whether llama.cpp computes with CUDA or its HIP twin, which share these kernels."""
    others = _OTHER_BACKENDS & set(case.runtime.backends.value_or([]))
    vendors = {g.vendor.value_or("NVIDIA") for g in gpus_of(case)} & {"NVIDIA", "AMD"}
    shared = bool(vendors) and not others and backend_name(case) in {"cuda", "rocm"}
    return shared and runs_ggml(case) is not False


def _by_cache(case: Case) -> Found | Absent | Suspected | None:
    """Types of the cache that a usual CUDA build has no kernel for, and a speed that shows it."""
    if not _usually_lacks_kernels(case) or not _on_cuda(case):
        return None
    if around := _way_around(case):
        return Absent(around)
    fact = "runtime.kv_type_k" if isinstance(case.runtime.kv_type_k, Known) else "runtime.kv_type_v"
    types = " and ".join(sorted(set(_cache_types(case))))
    because = f"the KV cache is {types}, for which a usual build has no kernel on the GPU"
    evidence, remedy = cite(case, fact), Remedy(OTHER_TYPE, None, "answers change slightly")
    prompt = _slow_prompt(case)
    if prompt:
        return Found(f"{because}: {prompt[0]}", (evidence, prompt[1]), Cure(), (remedy,))
    try:  # such a cache costs more with every token in it: the speed at the start of a chat proves nothing
        fall = fall_with_depth(case)
    except MissingFactError:
        # Where nobody tried: a type that surely lacks kernels is the cause of a speed that is too low
        aged = isinstance(case.runtime.version, Known) and build_number(case.runtime.version.value) < NEWEST
        # No usual build of this age has a kernel for the cache, nor a way around it
        convertible = set(_cache_types(case)) <= CONVERTED
        old = build_number(case.runtime.version.value_or("")) <= LACKING_UNTIL or not convertible
        if old or (is_report(case) and not aged):
            slow = _if_slow(case, evidence, remedy, Suspected(because, "the speed with another type", "{try_kv_type}"))
            if not isinstance(slow, Absent):
                return slow
        return Suspected(because, "run.depths", TRY_IT)
    if fall.beyond < BEYOND:
        return Absent(f"the speed falls no more with depth than it should: {fall.words}")
    shown = (evidence, cite(case, "run.depths", words=fall.words))
    return Found(f"{because}: {fall.words}", shown, None, (remedy,), speedup=fall.beyond)


def _if_slow(case: Case, evidence: Evidence, remedy: Remedy, suspected: Suspected) -> Found | Absent | Suspected:
    """A known mechanism is the cause where it is slow, and no more than a suspicion where nobody can tell."""
    slow = True if is_report(case) else generates_slowly(case)
    if not slow:
        return suspected if slow is None else Absent("it is as fast as it should be")
    cured = remedy._replace(cure=None if is_report(case) else Cure())
    return Found(suspected.because, (evidence,), cured.cure, (cured,))


def _slow_prompt(case: Case) -> tuple[str, Evidence] | None:
    """A long prompt that was read far slower than it should be, in words and as evidence."""
    measured, expected = prompt_speed(case), predict_prefill(case)
    if not isinstance(measured, Known) or not isinstance(expected, Prediction) or is_report(case):
        return None
    if measured.value * FAR_BELOW > expected.tokens_per_s.low:
        return None
    fact = "run.long_prompt" if isinstance(case.run.long_prompt, Known) else "run.prefill_tokens_per_s"
    words = f"{measured.value:.0f} tokens of a prompt per second, and it should be {expected.tokens_per_s.mid:.0f}"
    return words, cite(case, fact, f"{expected.tokens_per_s.mid:.0f} tokens per second")


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
    check=check_by(
        _by_trial, _by_word_of_the_backend, _by_buffers, _by_splits, _by_cache, _by_weights, _all_have_kernels
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
