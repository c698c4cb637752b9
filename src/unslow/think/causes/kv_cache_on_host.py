"""The KV cache lies in the host's memory, while the weights are on the GPU.

## Why it is slow
Attention is computed where its cache lies. Every layer of every token then goes from the GPU to the CPU and back, and
the keys and values of the whole conversation are read from RAM: the longer the chat, the slower.

## How to confirm
llama.cpp prints `CPU KV buffer size = ...` beside `CUDA0 model buffer size = ...`, and `graph splits` in the dozens.
The switch is `--no-kv-offload` (`-nkvo`), or LM Studio's "Offload KV Cache to GPU Memory".

## How to fix
Let the KV cache go to the GPU; where it does not fit, shorten the context or store it as q8_0.

## Safety
Answers do not change. The GPU's memory must hold the cache of the whole configured context.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.facts.values import Known
from unslow.think.adapt.vram import buffers_of
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, cite, need
from unslow.think.report import Evidence

MOSTLY = 0.5
"""Of the cache: with layers on both sides it follows its layers, and this is no matter of the cache."""


def check(case: Case) -> Found | Absent:
    """Hold the buffers of the cache against those of the weights; a setting tells where they are not printed."""
    runtime = case.runtime
    host = sum(b.bytes for b in buffers_of(case, "kv", on_gpu=False))
    total = host + sum(b.bytes for b in buffers_of(case, "kv", on_gpu=True))
    if not total:
        return _by_setting(case)
    if host < MOSTLY * total:
        return Absent(f"{1 - host / total:.0%} of the KV cache is on the GPU")
    if buffers_of(case, "model", on_gpu=False) and not buffers_of(case, "model", on_gpu=True):
        return Absent("the weights are on the CPU too")
    if not buffers_of(case, "model", on_gpu=True):
        need(case, "runtime.gpu_layers")
    layers = max(1, runtime.layers.value_or(0))
    if runtime.gpu_layers.value_or(layers) < MOSTLY * layers:
        return Absent("most layers are on the CPU, and the cache is with them")
    evidence = Evidence(
        fact="runtime.buffers", value=f"{host / GIB:.1f} GiB of KV cache on the host", reference="weights on the GPU",
        origin="reported", source=runtime.buffers.source if isinstance(runtime.buffers, Known) else "",
    )  # fmt: skip
    return _found(f"{host / GIB:.1f} GiB of KV cache lie in the host's memory, the weights on the GPU", evidence)


def _by_setting(case: Case) -> Found | Absent:
    if need(case, "runtime.kv_offload"):
        return Absent("the KV cache goes where its layers are")
    if not case.runtime.gpu_layers.value_or(1):
        return Absent("no layer is on the GPU")
    return _found("a setting keeps the KV cache in the host's memory", cite(case, "runtime.kv_offload"))


def _found(because: str, evidence: Evidence) -> Found:
    # physics reckons with a cache beside its weights, so the case as configured is the cured one
    change = Knob.KV_OFFLOAD.to(value=True, why="the cache belongs beside the weights")
    return Found(because, (evidence,), Cure(), (Remedy(change, Cure()),))


CAUSE = Cause(
    title="The KV cache is in host memory",
    phase="decode",
    needs=(("runtime.buffers", "runtime.kv_offload"),),
    check=check,
    explains=("kv_cache_outgrows_vram", "type_without_gpu_kernel", "cpu_round_trip_bound", "kernel_launch_bound"),
    gpu_only=True,
    ask="the log lines `KV buffer size` and the command line (llama-server: start it with `-lv 4`)",
)
