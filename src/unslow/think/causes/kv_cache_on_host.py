"""The KV cache is in host memory, while the weights are on the GPU.

## Why it is slow
Attention needs the keys and values of the whole conversation for each token. From host memory they cross PCIe, or the
CPU computes attention, layer by layer, there and back: the longer the chat, the slower.

## How to confirm
llama.cpp prints `CPU KV buffer size = ...` beside `CUDA0 model buffer size = ...`, and `graph splits` in the dozens.

Guides say that a growing cache overflows the GPU's memory, but it is allocated in full when the model is loaded: a
setting puts it elsewhere.

## What it is not
Layers on both sides: the cache follows its layers, and the part in host memory belongs to a spill.

## How to fix
Let the cache go to the GPU; where it does not fit, shorten the context or store it as q8_0:
- llama.cpp: remove `--no-kv-offload` (`-nkvo`), or `LLAMA_ARG_NO_KV_OFFLOAD` from the environment
- Ollama: remove `LLAMA_ARG_KV_OFFLOAD` and `LLAMA_ARG_NO_KV_OFFLOAD` from the environment of the service
- LM Studio: "Offload KV Cache to GPU Memory" on
- KoboldCpp: without `--lowvram`; Transformers: no `cache_implementation="offloaded"`
- vLLM, SGLang: nothing to do; the cache that they compute with is on the GPU

## Safety
Answers do not change. The GPU's memory must hold the cache of the whole configured context.
"""

from unslow.facts.knob import Knob
from unslow.facts.values import GIB
from unslow.think.case.cure import Cure
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, all_of, finding

MOSTLY = 0.5  # Of the cache: with less of it on the host, attention is computed where the weights are
BESIDE_ITS_LAYERS = 0.25
"""With layers on both sides the cache follows its layers; sliding-window layers have less of it than others."""
ON_GPU = Cure(kv_on_gpu=True)
OFFLOAD = Knob.KV_OFFLOAD.to(value=True, why="keep the cache beside the weights")


def paged_cache(case: CaseView) -> Absent | None:
    """Engines such as vLLM and SGLang allocate their cache in blocks of GPU memory."""
    is_paged = case.engine.runs_paged and not case.vram.buffers("kv", on_gpu=False)
    return Absent(f"{case.engine.label} allocates its cache in blocks of GPU memory") if is_paged else None


def cache_on_gpu(case: CaseView) -> Absent | None:
    """The buffers in the log: most of the cache is on the GPU, or the weights are on the CPU too."""
    host, total = case.vram.host_kv_bytes, case.vram.kv_bytes
    if not total:
        return None
    if host < MOSTLY * total:
        return Absent(f"{1 - host / total:.0%} of the KV cache is on the GPU")
    if case.vram.buffers("model", on_gpu=False) and not case.vram.buffers("model", on_gpu=True):
        return Absent("the weights are on the CPU too")
    return None


def offload_setting(case: CaseView) -> Found | Absent | None:
    """The setting, which says more than the buffers only where it turns offload off."""
    if case.vram.kv_bytes and case.runtime.cache.offload.get() is not False:
        return None
    if case.need("runtime.cache.offload"):
        return Absent("the KV cache is where its layers are")
    if case.runtime.placement.gpu_layers.get() == 0:
        return Absent("no layer is on the GPU")
    because = "a setting keeps the KV cache in host memory"
    return finding(case, because, "runtime.cache.offload", cure=ON_GPU, fixes=[OFFLOAD])


def cache_beyond_host_layers(case: CaseView) -> Found | Absent | None:
    """The share of the cache in host memory, against the share of the layers there."""
    host, total = case.vram.host_kv_bytes, case.vram.kv_bytes
    if not total:
        return None
    on_cpu = 1 - min(1.0, case.need("runtime.placement.gpu_layers") / max(1, case.need("runtime.placement.layers")))
    if host / total < on_cpu + BESIDE_ITS_LAYERS:
        return Absent(f"{on_cpu:.0%} of the layers are on the CPU, and their cache is with them")
    because = f"{host / GIB:.1f} GiB of KV cache are in host memory, while the weights are on the GPU"
    words = f"{host / GIB:.1f} GiB of KV cache in host memory"
    cited = case.cite("runtime.memory.buffers", "weights on the GPU", words)
    return finding(case, because, cited, cure=ON_GPU, fixes=[OFFLOAD])


CAUSE = Cause(
    title="The KV cache is in host memory",
    phase="decode",
    needs=all_of("runtime.memory.buffers or runtime.cache.offload or runtime.name"),
    routes=(
        Route("counted", paged_cache),
        Route("log", cache_on_gpu),
        Route("counted", offload_setting),
        Route("log", cache_beyond_host_layers),
    ),
    on_gpu=True,
    explains=("kv_cache_outgrows_vram", "type_without_gpu_kernel", "cpu_round_trip_bound", "kernel_launch_bound"),
    gpu_only=True,
    ask="the lines about the KV cache of {load_log}, and {command_line}",
)
