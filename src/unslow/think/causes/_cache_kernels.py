"""A KV cache of types for which the GPU has no kernel: by the types and the build, and by what its speed shows."""

import re

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError
from unslow.think.case.bandwidth import backend_name
from unslow.think.case.narrative import is_report
from unslow.think.case.prediction import Prediction, measured_prefill, predict_prefill
from unslow.think.case.runtime import NEWEST, build_number, runs_ggml
from unslow.think.case.vram import gpus_of
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Found, Remedy, Suspected
from unslow.think.causes._evidence import BEYOND, TRY_IT, fall_with_depth
from unslow.think.causes._facts import cite, if_slow
from unslow.think.report import Evidence

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


def cache_types(case: Case) -> tuple[str, str]:
    """The types of keys and values; where one is unknown, the other's; empty where both are."""
    keys, values = case.runtime.kv_type_k.value_or(""), case.runtime.kv_type_v.value_or("")
    return (keys or values).lower(), (values or keys).lower()


def usually_lacks_kernels(case: Case) -> bool:
    """Whether a usual build has no kernel for flash attention with such a cache."""
    kinds = cache_types(case)
    return all(kinds) and kinds not in WITH_KERNELS and case.runtime.flash_attention.value_or(default=True)


def way_around(case: Case) -> str:
    """How this very build computes such a cache on the GPU all the same, by its own word; empty where it says none."""
    features = " ".join(case.runtime.build_features.value_or([])).upper()
    if not _is_convertible(case):
        return ""
    if "FA_ALL_QUANTS" in features:
        return "the build has kernels for all types of the KV cache"
    converts = any(_SAYS_THAT_IT_CONVERTS.search(line) for line in case.runtime.warnings.value_or([]))
    return "the build converts such a KV cache to F16 on the GPU" if converts or "FA_QUANTS" in features else ""


def surely_lacks_kernels(case: Case) -> bool:
    """Whether no usual build of this age has a kernel for the cache, nor a way around it."""
    return not _is_convertible(case) or build_number(case.runtime.version.value_or("")) <= LACKING_UNTIL


def _is_convertible(case: Case) -> bool:
    return set(cache_types(case)) <= CONVERTED


def on_cuda(case: Case) -> bool:
    """Whether llama.cpp computes with CUDA or its HIP twin, which share these kernels."""
    others = _OTHER_BACKENDS & set(case.runtime.backends.value_or([]))
    vendors = {g.vendor.value_or("NVIDIA") for g in gpus_of(case)} & {"NVIDIA", "AMD"}
    shared = bool(vendors) and not others and backend_name(case) in {"cuda", "rocm"}
    return shared and runs_ggml(case) is not False


FAR_BELOW = 2.0
"""Times below the least that prompts should reach: attention on the CPU slows them 8 to 30 times (issue 27109)."""
OTHER_TYPE = Knob.KV_CACHE_TYPE.to("q8_0", "a type that has kernels, for keys and values alike")


def by_cache(case: Case) -> Found | Absent | Suspected | None:
    """Types of the cache that a usual CUDA build has no kernel for, and a speed that shows it."""
    if not usually_lacks_kernels(case) or not on_cuda(case):
        return None
    if around := way_around(case):
        return Absent(around)
    fact = "runtime.kv_type_k" if isinstance(case.runtime.kv_type_k, Known) else "runtime.kv_type_v"
    types = " and ".join(sorted(set(cache_types(case))))
    because = f"the KV cache is {types}, for which a usual build has no kernel on the GPU"
    return _if_it_falls(case, because, cite(case, fact), Remedy(OTHER_TYPE, None, "answers change slightly"))


def _if_it_falls(case: Case, because: str, evidence: Evidence, remedy: Remedy) -> Found | Absent | Suspected:
    """A cache without kernels costs more with every token in it: the speed at the start of a chat proves nothing."""
    prompt = _slow_prompt(case)
    if prompt:
        return Found(f"{because}: {prompt[0]}", (evidence, prompt[1]), Cure(), (remedy,))
    try:
        fall = fall_with_depth(case)
    except MissingFactError:
        # Where nobody tried: a type that surely lacks kernels is the cause of a speed that is too low
        aged = isinstance(case.runtime.version, Known) and build_number(case.runtime.version.value) < NEWEST
        if surely_lacks_kernels(case) or (is_report(case) and not aged):
            slow = if_slow(case, evidence, remedy, Suspected(because, "the speed with another type", "{try_kv_type}"))
            if not isinstance(slow, Absent):
                return slow
        return Suspected(because, "run.depths", TRY_IT)
    if fall.beyond < BEYOND:
        return Absent(f"the speed falls no more with depth than it should: {fall.words}")
    tried = cite(case, "run.depths", words=fall.words)
    return Found(f"{because}: {fall.words}", (evidence, tried), None, (remedy,), speedup=fall.beyond)


def _slow_prompt(case: Case) -> tuple[str, Evidence] | None:
    """A long prompt that was read far slower than it should be, in words and as evidence."""
    measured, expected = measured_prefill(case), predict_prefill(case)
    if not isinstance(measured, Known) or not isinstance(expected, Prediction) or is_report(case):
        return None
    if measured.value * FAR_BELOW > expected.tokens_per_s.low:
        return None
    fact = "run.long_prompt" if isinstance(case.run.long_prompt, Known) else "run.prefill_tokens_per_s"
    words = f"{measured.value:.0f} tokens of a prompt per second, and it should be {expected.tokens_per_s.mid:.0f}"
    return words, cite(case, fact, f"{expected.tokens_per_s.mid:.0f} tokens per second")
