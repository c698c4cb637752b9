"""The KV cache lies in the host's memory, while the weights are on the GPU.

## Why it is slow
Attention needs the keys and values of the whole conversation for each token. From the host's memory they cross PCIe,
or the CPU computes with them, layer by layer, there and back: the longer the chat, the slower.

## How to confirm
llama.cpp prints `CPU KV buffer size = ...` beside `CUDA0 model buffer size = ...`, and `graph splits` in the dozens.

Guides say that a cache which grows overflows the GPU's memory by itself, but it is allocated as a whole when the model
is loaded: a setting puts it elsewhere.

## What it is not
Layers on both sides: the cache follows its layers, and what is there is a spill.

## How to fix
Let the cache go to the GPU; where it does not fit, shorten the context or store it as q8_0:
- llama.cpp: take `--no-kv-offload` (`-nkvo`) out, or `LLAMA_ARG_NO_KV_OFFLOAD` of the environment
- Ollama: take `LLAMA_ARG_KV_OFFLOAD` and `LLAMA_ARG_NO_KV_OFFLOAD` out of the environment of the service
- LM Studio: "Offload KV Cache to GPU Memory" on
- KoboldCpp: without `--lowvram`; Transformers: no `cache_implementation="offloaded"`
- vLLM, SGLang: nothing to do; what they compute with lies on the GPU

## Safety
Answers do not change. The GPU's memory must hold the cache of the whole configured context.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known
from unslow.think.case.runtime import runs_paged
from unslow.think.case.vram import buffers_of
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy
from unslow.think.causes._facts import cite, need
from unslow.think.report import Evidence

MOSTLY = 0.5  # Of the cache: with less of it on the host, attention is computed where the weights are
BESIDE_WEIGHTS = Cure(kv_on_gpu=True)
_BESIDE_WEIGHTS = Remedy(Knob.KV_OFFLOAD.to(value=True, why="the cache belongs beside the weights"), BESIDE_WEIGHTS)
BESIDE_ITS_LAYERS = 0.25
"""With layers on both sides the cache follows its layers; layers with a window have less of it than others."""


def check(case: Case) -> Found | Absent:
    """Hold the buffers of the cache against those of the weights; a setting tells where they are not printed."""
    runtime = case.runtime
    host = sum(b.bytes for b in buffers_of(case, "kv", on_gpu=False))
    total = host + sum(b.bytes for b in buffers_of(case, "kv", on_gpu=True))
    if runs_paged(case) and not host:
        return Absent(f"{runtime.name.value_or('it')} gives out its cache in blocks of the GPU's memory")
    if not total:
        return _by_setting(case)
    if host < MOSTLY * total:
        return Absent(f"{1 - host / total:.0%} of the KV cache is on the GPU")
    if buffers_of(case, "model", on_gpu=False) and not buffers_of(case, "model", on_gpu=True):
        return Absent("the weights are on the CPU too")
    if runtime.kv_offload.value_or(default=True) is False:
        return _by_setting(case)  # which needs no count
    on_cpu = 1 - min(1.0, need(case, "runtime.gpu_layers") / max(1, need(case, "runtime.layers")))
    if host / total < on_cpu + BESIDE_ITS_LAYERS:
        return Absent(f"{on_cpu:.0%} of the layers are on the CPU, and their cache is with them")
    evidence = Evidence(
        fact="runtime.buffers", value=f"{host / GIB:.1f} GiB of KV cache on the host", reference="weights on the GPU",
        origin="reported", source=runtime.buffers.source if isinstance(runtime.buffers, Known) else "",
    )  # fmt: skip
    because = f"{host / GIB:.1f} GiB of KV cache lie in the host's memory, the weights on the GPU"
    return Found(because, (evidence,), BESIDE_WEIGHTS, (_BESIDE_WEIGHTS,))


def _by_setting(case: Case) -> Found | Absent:
    if need(case, "runtime.kv_offload"):
        return Absent("the KV cache goes where its layers are")
    if not case.runtime.gpu_layers.value_or(1):
        return Absent("no layer is on the GPU")
    because = "a setting keeps the KV cache in the host's memory"
    return Found(because, (cite(case, "runtime.kv_offload"),), BESIDE_WEIGHTS, (_BESIDE_WEIGHTS,))


CAUSE = Cause(
    title="The KV cache is in host memory",
    phase="decode",
    needs=(("runtime.buffers", "runtime.kv_offload", "runtime.name"),),
    check=check,
    on_gpu=True,
    explains=("kv_cache_outgrows_vram", "type_without_gpu_kernel", "cpu_round_trip_bound", "kernel_launch_bound"),
    gpu_only=True,
    ask="the lines about the KV cache of {load_log}, and {command_line}",
)
