"""The GPU has enough free memory, but not in one piece.

## Why it is slow
Allocators keep the blocks that they free. After many loads, or many shapes of requests, the free memory is in pieces,
and a large buffer finds no room: the load fails, or fewer layers fit than at first.

Guides call this a frequent cause, but no confirmed report shows it: a process that ends gives all of its memory back,
and llama.cpp and Ollama start a new one for each load. Look at other programs and at the context first.

## How to confirm
PyTorch's error says it: more is "reserved by PyTorch but unallocated" than was asked for. A log in which the same model
is loaded again with as much memory free and fewer layers on the GPU is a sign, not proof.

## What it is not
Memory that another program took, or a context that was changed between two loads: look at those first.

## How to fix
Restart the runtime; nothing else is needed:
- vLLM, SGLang, Transformers: start it with `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`
- llama.cpp: restart llama-server; Ollama: `systemctl restart ollama`; LM Studio: `lms unload --all`, then load the
  model again
- Guides advise `torch.cuda.reset_peak_memory_stats()`, but that only resets a counter; `torch.cuda.empty_cache()`
  frees memory

## Safety
Answers do not change. A restart ends the requests in progress.
"""

import re
from itertools import combinations

from unslow.facts.knob import Knob
from unslow.facts.runtime import PastLoad
from unslow.facts.values import GIB, MIB, Known
from unslow.think.case.group import if_known
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding

_UNALLOCATED = re.compile(r"(\d{1,6}(?:\.\d+)?) ([GM])iB is reserved by PyTorch but unallocated")
_TRIED = re.compile(r"[Tt]ried to allocate (\d{1,6}(?:\.\d+)?) ([GM])iB")
_UNITS = {"G": GIB, "M": MIB}
AS_MUCH = 0.98  # Of what was free before the first load: a little comes and goes
EXPAND = Knob.ALLOCATOR.to("expandable_segments:True", "restart with an allocator that merges the blocks it freed")


def pytorch_error(case: CaseView) -> Found | Absent | None:
    """PyTorch's out-of-memory error: what it asked for against what it had reserved and not allocated."""
    failure = case.runtime.memory.allocation_failure.get()
    unused = failure and _UNALLOCATED.search(failure.message)
    tried = failure and _TRIED.search(failure.message)
    if not failure or not unused or not tried:
        return None
    spare, asked = (float(found[1]) * _UNITS[found[2]] for found in (unused, tried))
    if spare < asked:
        return Absent(f"{asked / MIB:.0f} MiB were asked for, and only {spare / MIB:.0f} MiB were reserved and unused")
    because = f"{asked / MIB:.0f} MiB could not be allocated while {spare / MIB:.0f} MiB were unused, in pieces"
    cited = case.cite("runtime.memory.allocation_failure", words=failure.message)
    return finding(case, because, cited, fixes=[EXPAND])


def repeated_loads(case: CaseView) -> Absent | Suspected | None:
    """Loads of one model with as much memory free: fewer layers on the GPU are a sign, though a setting does it too."""
    pairs = [(old, new) for old, new in combinations(case.engine.loads, 2) if _are_alike(old, new)]
    layers = [(old.gpu_layers.need(), new.gpu_layers.need()) for old, new in pairs]
    if fewer := [after for before, after in layers if after < before]:
        because = f"with as much memory free as before, only {fewer[-1]} layers were put on the GPU"
        return Suspected(because, "whether a fresh start puts more there", CAUSE.ask)
    return Absent("similar loads put as many layers on the GPU") if pairs else None


def _are_alike(old: PastLoad, new: PastLoad) -> bool:
    """Whether two loads are of one model and context, with as much memory free before the later one."""
    facts = [(load.model, load.context_length, load.gpu_layers, load.free_bytes) for load in (old, new)]
    if not all(isinstance(fact, Known) for fact in (*facts[0], *facts[1])):
        return False
    same = all(before.need() == after.need() for before, after in zip(facts[0][:2], facts[1][:2], strict=True))
    return same and new.free_bytes.need() >= AS_MUCH * old.free_bytes.need()


def single_load(case: CaseView) -> Absent | None:
    """A process that has loaded once has no memory in pieces."""
    is_fresh = case.engine.runs_ggml and len(case.engine.loads) == 1
    return Absent("the process has loaded only once, so its memory was in one piece") if is_fresh else None


def all_on_gpu(case: CaseView) -> Absent | None:
    """Everything that was asked for found room on the GPU."""
    failed = case.runtime.memory.allocation_failure.get() is not None
    if failed or case.runtime.state.get() != "loaded" or if_known(lambda: case.placement.layers_on_host) != 0:
        return None
    return Absent("the whole model found room on the GPU")


CAUSE = Cause(
    title="The GPU's memory is fragmented",
    phase="load",
    needs=all_of("runtime.memory.allocation_failure or runtime.history.loads or runtime.state"),
    routes=(
        Route("log", pytorch_error),
        Route("log", repeated_loads),
        Route("log", single_load),
        Route("counted", all_on_gpu),
    ),
    on_gpu=True,
    fails_load=True,
    explains=("memory_allocation_failed", "other_process_holds_vram"),
    gpu_only=True,
    ask="the full text of the error; or restart the runtime and compare {placement}",
)
