"""The GPU has the memory, but not in one piece.

## Why it is slow
Allocators keep blocks that they freed. After many loads, or many shapes of requests, what is free lies in pieces, and
a large buffer finds no room: the load fails, or fewer layers fit than on the first day.

Guides say that this is a frequent cause, but no confirmed report shows it: a process that ends gives all of its memory
back, and llama.cpp and Ollama start a new one for each load. Look at other programs and at the context first.

## How to confirm
PyTorch says it in its error: much is "reserved by PyTorch but unallocated", more than what was asked for. A log in
which the same model is loaded again with as much memory free and fewer layers on the GPU is a sign of it, no proof.

## What it is not
Memory that another program took, or a context that was changed between two loads: look at those first.

## How to fix
Restart the runtime, and no more:
- vLLM, SGLang, Transformers: start it with `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`
- llama.cpp: restart llama-server; Ollama: `systemctl restart ollama`; LM Studio: `lms unload --all`, then load the
  model again
- Guides advise `torch.cuda.reset_peak_memory_stats()`, but that only resets a counter; `torch.cuda.empty_cache()`
  frees

## Safety
Answers do not change. A restart ends the requests that are being answered.
"""

import re

from unslow.facts.knob import Knob
from unslow.facts.runtime import PastLoad
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, Known
from unslow.think.case.placement import layers_left_on_host
from unslow.think.case.runtime import runs_ggml
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import cite, if_known

_UNALLOCATED = re.compile(r"(\d{1,6}(?:\.\d+)?) ([GM])iB is reserved by PyTorch but unallocated")
_TRIED = re.compile(r"[Tt]ried to allocate (\d{1,6}(?:\.\d+)?) ([GM])iB")
_UNITS = {"G": GIB, "M": MIB}
AS_MUCH = 0.98  # Of what was free before the first load: a little comes and goes


def _by_message(case: Case) -> Found | Absent | None:
    failure = case.runtime.allocation_failure
    if not isinstance(failure, Known):
        return None
    unused, tried = _UNALLOCATED.search(failure.value.message), _TRIED.search(failure.value.message)
    if not unused or not tried:
        return None
    spare, asked = (float(m[1]) * _UNITS[m[2]] for m in (unused, tried))
    if spare < asked:
        return Absent(f"{asked / MIB:.0f} MiB were asked for, and {spare / MIB:.0f} MiB lay unused")
    evidence = cite(case, "runtime.allocation_failure", words=failure.value.message)
    because = f"{asked / MIB:.0f} MiB could not be allocated while {spare / MIB:.0f} MiB lay unused in pieces"
    change = Knob.ALLOCATOR.to("expandable_segments:True", "start it anew, with an allocator that joins what it freed")
    return Found(because, (evidence,), None, (Remedy(change),))


def _by_loads(case: Case) -> Absent | Suspected | None:
    """A later load of the same model with as much free, and fewer layers on the GPU: a setting may do that as well."""
    loads = [load for load in case.runtime.loads.value_or([]) if isinstance(load.free_bytes, Known)]
    pairs = [(old, new) for i, old in enumerate(loads) for new in loads[i + 1 :] if _are_alike(old, new)]
    worse = [new for old, new in pairs if new.gpu_layers.need() < old.gpu_layers.need()]
    if worse:
        because = f"with as much memory free as before, only {worse[-1].gpu_layers.need()} layers went to the GPU"
        return Suspected(because, "whether a fresh start puts more there", CAUSE.ask)
    return Absent("loads that are alike put as many layers on the GPU") if pairs else None


def _by_placement(case: Case) -> Absent | None:
    """A process that loaded once has nothing in pieces; nor does it matter where all that was asked for has room."""
    if runs_ggml(case) and len(case.runtime.loads.value_or([])) == 1:
        return Absent("the process has loaded once: its memory was in one piece")
    if case.runtime.state.value_or("") != "loaded" or isinstance(case.runtime.allocation_failure, Known):
        return None
    all_there = if_known(layers_left_on_host, case) == 0
    return Absent("all of the model found room on the GPU") if all_there else None


def _are_alike(old: PastLoad, new: PastLoad) -> bool:
    """Whether two loads are of one model and context, with as much memory free before the later one."""
    pairs = ((old.model, new.model), (old.context_length, new.context_length))
    same = all(isinstance(a, Known) and isinstance(b, Known) and a.value == b.value for a, b in pairs)
    counted = isinstance(old.gpu_layers, Known) and isinstance(new.gpu_layers, Known)
    return same and counted and new.free_bytes.need() >= AS_MUCH * old.free_bytes.need()


CAUSE = Cause(
    title="The GPU's memory is fragmented",
    phase="load",
    needs=(("runtime.allocation_failure", "runtime.loads", "runtime.state"),),
    check=check_by(_by_message, _by_loads, _by_placement),
    on_gpu=True,
    fails_load=True,
    explains=("memory_allocation_failed", "other_process_holds_vram"),
    gpu_only=True,
    ask="the whole text of the error; or restart the runtime and compare {placement}",
)
