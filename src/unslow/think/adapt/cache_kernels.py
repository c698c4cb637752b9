"""Whether the CUDA backend of llama.cpp has kernels for the types of a KV cache: by the types, the build and its word.

Where it lacks them it computes attention on the CPU, unless it is a newer build, which converts the cache to F16.
"""

import re

from unslow.facts.snapshot import Case
from unslow.think.adapt.bandwidth import backend_name
from unslow.think.adapt.runtime_family import runs_ggml
from unslow.think.adapt.versions import build_number
from unslow.think.adapt.vram import gpus_of

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
