"""The load ends because memory could not be allocated.

## Why it fails
Weights, KV cache and compute buffer are allocated one after the other. The first that does not fit ends the load.
Settings that switch the automatic fit off (`-ngl 99`, `--fit off`, a context set by hand) are the usual reason that it
was tried at all.

Guides reckon with parameters x bits / 8 x 1.25, but a quant of "four bits" has 4.85, the KV cache depends on the
context, not on the weights, and one compute buffer serves all layers: `unslow fit MODEL --context N` reckons to the
byte.

## How to confirm
The log shows the allocation: `allocating N MiB on device 0: cudaMalloc failed: out of memory`, and what it was for.

## What it is not
A model that loads, however slowly. Nor a warning that is recovered from: llama.cpp tries again without pipeline
parallelism, Ollama with a shorter context.

## How to fix
Ask for fewer bytes, or leave the placement to the runtime; or free what other programs hold:
- llama.cpp: without `-ngl` and `--fit off`; `-c 8192`; `-ctk q8_0 -ctv q8_0`; `-fa on` and a smaller `-ub`
  for the compute buffer; builds before b7407 do not fit by themselves: `-ngl` with fewer layers
- Ollama: a smaller `num_ctx`, without `num_gpu`; LM Studio: fewer layers on the GPU, a shorter context
- vLLM: its error names the longest `--max-model-len` that fits; `--gpu-memory-utilization` lower where others hold
  memory, higher where they do not
- Transformers: `device_map="auto"`, a 4-bit `quantization_config`; SGLang: a lower `--mem-fraction-static`

## Safety
Answers do not change, but for a q8_0 cache, slightly.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, Known, first_known
from unslow.think.case.demand import fitting_placement, kv_per_token, read_shape
from unslow.think.case.narrative import places_layers_itself
from unslow.think.case.vram import available_vram_bytes, compute_bytes, failed_on_gpu, margin_bytes
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy
from unslow.think.causes._facts import cite, cite_known, if_known
from unslow.think.causes._memory_remedies import HALF_CACHE
from unslow.think.physics.placement import FIT_MARGIN_BYTES

_WHAT = {
    "weights": "the weights",
    "kv_cache": "the KV cache",
    "compute_buffer": "the compute buffer",
    "unknown": "a buffer",
}
_STEP, _SHORT = 1024, 4096
USUAL_UBATCH = 512  # The default of llama.cpp
_LEAVE = Remedy(Knob.FIT.to(value=True, why="let the runtime place what fits: no explicit layers, context or fit"))
_MASK_BYTES = 2
"""For each token of the context and of a micro-batch: the mask of attention, in f16, most of a long context's compute
buffer (llama.cpp in Ollama 0.33 on a CPU: 8,246 MiB for 2,097,152 tokens in batches of 2,048)."""
_SPARE = 0.25
"""Of the margin that a fit leaves: a context that is set by hand needs some of it, for what the estimate lacks."""


def check(case: Case) -> Found | Absent:
    """Look for the allocation that ended the load."""
    failure = case.runtime.allocation_failure
    if not isinstance(failure, Known):
        state = case.runtime.state.need()
        return Absent("the model is loaded" if state == "loaded" else f"the model is {state}, and no allocation failed")
    asked = failure.value.asked_bytes.value_or(0)
    size = f"{asked / MIB:.0f} MiB for " if asked else ""
    on_gpu, ram = failed_on_gpu(case), case.machine.memory.available_bytes
    free = if_known(available_vram_bytes, case) if on_gpu else ram.value_or(None)
    room = f"; {free / GIB:.1f} GiB were free before the load" if free is not None else ""
    free_before = None if free is None else f"{free / MIB:.0f} MiB free before the load"
    where = f" on {failure.value.device}" if failure.value.device else ""
    # On a GPU a smaller compute buffer where that failed, the longest context that fits, and what the runtime can place
    remedies = (*_smaller_buffer(case), *(if_known(_fitting, case) or [_LEAVE])) if on_gpu else _on_host(case)
    return Found(
        because=f"{size}{_WHAT[failure.value.what]} could not be allocated{where}{room}",
        evidence=(
            cite(case, "runtime.allocation_failure", free_before, failure.value.message),
            *cite_known(case, "runtime.context_length"),
        ),
        cure=Cure(vram_bytes=free, context=_SHORT) if free is not None and on_gpu else None,
        remedies=remedies,
    )


def _longest(tokens: int) -> Remedy:
    return Remedy(Knob.CONTEXT_LENGTH.to(tokens, "the longest context that fits beside the weights"))


def _on_host(case: Case) -> tuple[Remedy, ...]:
    """Less of what takes most: a shorter context where its cache is larger than the weights, else smaller weights."""
    smaller = Remedy(Knob.QUANT.to(None, "a smaller quant or model: less to hold in memory"))
    failure = case.runtime.allocation_failure.value_or(None)
    context = first_known(case.runtime.context_length, case.runtime.context_set).value_or(0)
    asked = failure.asked_bytes.value_or(0) if failure and failure.what == "kv_cache" else 0
    cache, weights = asked or kv_per_token(case) * context, case.model.weights_bytes.value_or(0)
    free = case.machine.memory.available_bytes.value_or(None)
    if not context or cache <= weights or free is None or not (failure and failure.what != "weights"):
        return (*_smaller_buffer(case), smaller)
    room = free - FIT_MARGIN_BYTES * _SPARE - weights
    per_token = cache / context + case.runtime.ubatch.value_or(USUAL_UBATCH) * _MASK_BYTES
    tokens = int(room / per_token) // _STEP * _STEP
    return (
        *((_longest(tokens),) if 0 < tokens < context else ()),
        *((HALF_CACHE,) if case.runtime.kv_type_k.value_or("f16") == "f16" and cache / 2 < room else ()),
        *_smaller_buffer(case),
        *(() if tokens > 0 else (smaller,)),
    )


def _smaller_buffer(case: Case) -> tuple[Remedy, ...]:
    """Settings that make a compute buffer large, where it was the one that failed."""
    failure, runtime = case.runtime.allocation_failure.value_or(None), case.runtime
    if failure is None or failure.what != "compute_buffer":
        return ()
    attention = Knob.FLASH_ATTENTION.to(value=True, why="with flash attention the compute buffer is far smaller")
    batch = Knob.BATCH.to(USUAL_UBATCH, "a smaller micro-batch takes a smaller compute buffer")
    off = runtime.flash_attention.value_or(default=True) is False
    large = runtime.ubatch.value_or(0) > USUAL_UBATCH
    return (
        *((Remedy(attention),) if off else ()),
        *((Remedy(batch, None, "prompts are read slower"),) if large else ()),
    )


def _fitting(case: Case) -> list[Remedy]:
    """The longest context that fits with all layers on the GPU; for builds that do not place layers, as many as fit."""
    shape, free = read_shape(case), available_vram_bytes(case)
    weights = shape.layers * shape.layer_bytes + shape.output_bytes
    room = free - margin_bytes(case) * _SPARE - compute_bytes(case) - weights
    tokens = int(room / shape.kv_bytes_per_token) // _STEP * _STEP if shape.kv_bytes_per_token else 0
    remedies = []
    if 0 < tokens < case.runtime.context_length.value_or(tokens + 1):
        remedies.append(_longest(tokens))
    if places_layers_itself(case) is not False:
        return [*remedies, _LEAVE]
    placed = fitting_placement(case, shape, free, case.runtime.context_length.value_or(_SHORT))
    fitting, total = int(placed.gpu_layers) + placed.output_on_gpu, shape.layers + 1
    fewer = Knob.GPU_LAYERS.to(fitting, f"{fitting} of {total} layers fit; the CPU computes the rest")
    return [*remedies, Remedy(fewer) if 0 < fitting < total else _LEAVE]


CAUSE = Cause(
    title="Memory could not be allocated",
    phase="load",
    needs=(("runtime.allocation_failure", "runtime.state"),),
    check=check,
    fails_load=True,
    ask="the last fifty lines, after a load that fails, of {load_log}",
)
