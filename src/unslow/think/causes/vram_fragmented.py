"""The GPU has the memory, but not in one piece.

## Why it is slow
Allocators keep blocks that they freed. After many loads, or many shapes of requests, what is free lies in pieces, and
a large buffer finds no room: the load fails, or fewer layers fit than on the first day.

## How to confirm
PyTorch says it in its error: much is "reserved by PyTorch but unallocated", more than what was asked for. Or a log
shows the same model with the same context loaded again with as much memory free, and fewer layers on the GPU.

## How to fix
Restart the runtime. For PyTorch set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.

## Safety
Answers do not change.
"""

import re

from unslow.facts.knob import Knob
from unslow.facts.runtime import PastLoad
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB, MIB
from unslow.facts.values import Known
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected
from unslow.think.causes._routes import first_to_decide
from unslow.think.report import Evidence

_UNALLOCATED = re.compile(r"(\d{1,6}(?:\.\d+)?) ([GM])iB is reserved by PyTorch but unallocated")
_TRIED = re.compile(r"[Tt]ried to allocate (\d{1,6}(?:\.\d+)?) ([GM])iB")
_UNITS = {"G": GIB, "M": MIB}
AS_MUCH = 0.98
"""Of what was free before the first load: a little comes and goes."""


def check(case: Case) -> Found | Absent | Suspected:
    """Look into the allocator's own words, then at loads that should have been alike."""
    return first_to_decide(case, _by_message, _by_loads)


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
    evidence = Evidence(
        fact="runtime.allocation_failure", value=failure.value.message, reference=None, origin=str(failure.origin),
        source=failure.source,
    )  # fmt: skip
    because = f"{asked / MIB:.0f} MiB could not be allocated while {spare / MIB:.0f} MiB lay unused in pieces"
    return _found(because, (evidence,), ("memory_allocation_failed", "other_process_holds_vram"))


def _by_loads(case: Case) -> Found | Absent | None:
    """A later load of the same model and context with as much free, and fewer layers on the GPU."""
    loads = [load for load in case.runtime.loads.value_or([]) if isinstance(load.free_bytes, Known)]
    pairs = [(old, new) for i, old in enumerate(loads) for new in loads[i + 1 :] if _are_alike(old, new)]
    if not pairs:
        return None
    worse = [pair for pair in pairs if pair[1].gpu_layers.value_or(0) < pair[0].gpu_layers.value_or(0)]
    if not worse:
        return Absent("loads that are alike put as many layers on the GPU")
    old, new = worse[-1]
    because = f"with as much memory free as before, {new.gpu_layers.need()} layers went to the GPU instead of "
    return _found(f"{because}{old.gpu_layers.need()}", (_cited(old), _cited(new)), ("weights_spill_to_ram",))


def _are_alike(old: PastLoad, new: PastLoad) -> bool:
    known = isinstance(old.model, Known) and isinstance(old.context_length, Known)
    same = known and (old.model.value_or(""), old.context_length.value_or(0)) == (
        new.model.value_or(""),
        new.context_length.value_or(0),
    )
    layers = isinstance(old.gpu_layers, Known) and isinstance(new.gpu_layers, Known)
    return same and layers and new.free_bytes.need() >= AS_MUCH * old.free_bytes.need()


def _cited(load: PastLoad) -> Evidence:
    text = f"{load.at} {load.free_bytes.need() / GIB:.1f} GiB free, {load.gpu_layers.need()} layers on the GPU".strip()
    return Evidence(fact="runtime.loads", value=text, reference=None, origin="reported", source=load.source)


def _found(because: str, evidence: tuple[Evidence, ...], explains: tuple[str, ...]) -> Found:
    change = Knob.FIT.to(None, "restart the runtime: a fresh process has its memory in one piece")
    return Found(because, evidence, None, (Remedy(change),), explains)


CAUSE = Cause(
    title="The GPU's memory is fragmented",
    phase="load",
    needs=(("runtime.allocation_failure", "runtime.loads"),),
    check=check,
    explains=("weights_spill_to_ram", "memory_allocation_failed"),
    gpu_only=True,
    ask="the whole text of the out-of-memory error, or the load lines of the first and of the slow load",
)
