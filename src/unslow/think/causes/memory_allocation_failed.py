"""The load ends because memory could not be allocated.

## Why it fails
Weights, KV cache and compute buffer are allocated one after the other. The first that does not fit ends the load.
It is usually tried at all because a setting turns the automatic fit off: `-ngl 99`, `--fit off`, a context set by hand.

Guides estimate parameters x bits / 8 x 1.25, but a quant of "four bits" has 4.85, the KV cache depends on the context,
not on the weights, and one compute buffer serves all layers: `unslow fit MODEL --context N` calculates to the byte.

## How to confirm
The log shows the allocation: `allocating N MiB on device 0: cudaMalloc failed: out of memory`, and what it was for.

## What it is not
A model that loads, however slowly. Nor a warning that the runtime recovers from: llama.cpp tries again without pipeline
parallelism, Ollama with a shorter context.

## How to fix
Ask for fewer bytes, or leave the placement to the runtime; or free what other programs hold:
- llama.cpp: without `-ngl` and `--fit off`; `-c 8192`; `-ctk q8_0 -ctv q8_0`; `-fa on` and a smaller `-ub`
  for the compute buffer; builds before b7407 do not fit the model themselves: `-ngl` with fewer layers
- Ollama: a smaller `num_ctx`, without `num_gpu`; LM Studio: fewer layers on the GPU, a shorter context
- vLLM: its error names the longest `--max-model-len` that fits; `--gpu-memory-utilization` lower where other processes
  hold memory, higher where they do not
- Transformers: `device_map="auto"`, a 4-bit `quantization_config`; SGLang: a lower `--mem-fraction-static`

## Safety
Answers do not change, except slightly with a q8_0 cache.
"""

from unslow.facts.values import GIB, MIB
from unslow.think.case.cure import Cure
from unslow.think.case.group import if_known
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, all_of, finding
from unslow.think.plan.free_memory import SHORTEST_USEFUL, failed_load_remedies

KILLED = "signal: killed"
_WHAT = {
    "weights": "the weights",
    "kv_cache": "the KV cache",
    "compute_buffer": "the compute buffer",
    "unknown": "a buffer",
}


def no_failure(case: CaseView) -> Absent | None:
    """The log shows no allocation that failed."""
    if case.runtime.memory.allocation_failure.get() is not None:
        return None
    return Absent("the model is loaded" if case.runtime.state.need() == "loaded" else "no allocation failed")


def failed_allocation(case: CaseView) -> Found | None:
    """The allocation that ended the load, and what was free before."""
    failure = case.runtime.memory.allocation_failure.get()
    if failure is None:
        return None
    asked, on_gpu = failure.asked_bytes.get(), case.vram.allocation_failed
    free = if_known(lambda: case.vram.available_bytes) if on_gpu else case.machine.memory.available_bytes.get()
    size = f"{asked / MIB:.0f} MiB for " if asked else ""
    where = f" on {failure.device}" if failure.device else ""
    room = "" if free is None else f"; {free / GIB:.1f} GiB were free before the load"
    free_before = None if free is None else f"{free / MIB:.0f} MiB free before the load"
    because = f"{size}{_WHAT[failure.what]} could not be allocated{where}{room}"
    if KILLED in failure.message:
        limit, weights = case.runtime.process.memory_limit_bytes.get(), case.model.weights_bytes.get()
        allowed = f"; its memory limit is {limit / MIB:.0f} MiB" if limit else ""
        needed = f", and the weights take {weights / MIB:.0f} MiB" if limit and weights else ""
        because, free_before = f"the kernel killed the process while it loaded the model{allowed}{needed}", None
    return finding(
        case,
        because,
        case.cite("runtime.memory.allocation_failure", free_before, failure.message),
        case.cite_known("runtime.context.length"),
        cure=Cure(vram_bytes=free, context=SHORTEST_USEFUL) if free is not None and on_gpu else None,
        fixes=failed_load_remedies(case),
    )


CAUSE = Cause(
    title="Memory could not be allocated",
    phase="load",
    needs=all_of("runtime.memory.allocation_failure or runtime.state"),
    routes=(Route("log", no_failure), Route("log", failed_allocation)),
    fails_load=True,
    ask="the last fifty lines, after a load that fails, of {load_log}",
)
