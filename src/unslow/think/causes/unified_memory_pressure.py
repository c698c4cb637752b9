"""The model asks for more of a shared memory than the GPU may have, or than is left beside everything else.

## Why it is slow
GPU and CPU of a Mac share one memory, and macOS lets the GPU wire down about two thirds to three quarters of it. A
model beyond that limit, or one that leaves too little for the rest, is paged and compressed while it runs: tokens come
in seconds instead of milliseconds, often without any error.

## How to confirm
Weights and KV cache exceed the limit (`sysctl iogpu.wired_limit_mb`, `recommendedMaxWorkingSetSize` in the log), or
memory pressure is yellow or red and swap grows while tokens are generated.

## How to fix
A smaller quant or model, a shorter context, fewer other programs. Where there is room, raise the limit:
`sudo sysctl iogpu.wired_limit_mb=...`, and leave the system at least 8 GiB.

## Safety
A limit that is too high can freeze the machine. It is back to its default after a restart.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB, MIB
from unslow.facts.values import Known
from unslow.think.adapt.account import remarks_on
from unslow.think.adapt.hardware import is_unified, unified_limit_bytes
from unslow.think.adapt.shape import kv_per_token
from unslow.think.adapt.vram import seen_gpus
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._routes import cite_remarks, first_to_decide
from unslow.think.report import Evidence

LARGE_SHARE = 0.5
"""Of the memory: a model that is smaller is not what the pressure comes from."""
_PAGED = re.compile(r"swap|thrash|\bpag(?:e|ing)|compress|red\b|yellow|critical", re.IGNORECASE)


def check(case: Case) -> Found | Absent | Suspected:
    """Hold what the model takes against what the GPU may have, and look for pressure."""
    if not is_unified(case):
        return Absent("no GPU here shares the memory of the host")
    return first_to_decide(case, _by_pressure, _by_limit, _by_words)


def _by_limit(case: Case) -> Found | Absent | None:
    asked, what = _asked(case)
    limit, whose = _limit(case)
    if not asked or not limit:
        return None
    sizes = f"{asked / GIB:.1f} GiB asked for, {limit / GIB:.1f} GiB for the GPU"
    if asked <= limit:
        return Absent(f"it fits: {sizes}") if isinstance(case.machine.memory.pressure, Known) else None
    return _found(
        f"the model asks for more memory than the GPU may have: {sizes}",
        (cite(case, what, f"{limit / GIB:.1f} GiB for the GPU"), cite(case, whose)),
        limit,
    )


def _asked(case: Case) -> tuple[float, str]:
    """What the model takes: as the runtime reckons, else its weights and its cache."""
    if isinstance(case.runtime.asked_bytes, Known):
        return float(case.runtime.asked_bytes.value), "runtime.asked_bytes"
    cache = kv_per_token(case) * case.runtime.context_length.value_or(0)
    weights = case.model.weights_bytes.value_or(0)
    return (weights + cache if weights else 0.0), "model.weights_bytes"


def _limit(case: Case) -> tuple[float, str]:
    """The most that the GPU may have, and where that is read."""
    if isinstance(case.machine.memory.wired_limit_bytes, Known):
        return unified_limit_bytes(case) or 0.0, "machine.memory.wired_limit_bytes"
    for index, device in enumerate(seen_gpus(case)):
        if isinstance(device.total_bytes, Known):
            return float(device.total_bytes.value), f"runtime.devices.{index}.total_bytes"
    if isinstance(case.runtime.available_bytes, Known):
        return float(case.runtime.available_bytes.value), "runtime.available_bytes"
    return unified_limit_bytes(case) or 0.0, "machine.memory.total_bytes"


def _by_pressure(case: Case) -> Found | None:
    """By the system's own word on its memory, with a model that is large enough to be the reason."""
    memory = case.machine.memory
    pressure = memory.pressure.value_or("normal")
    total, weights = memory.total_bytes.value_or(0), case.model.weights_bytes.value_or(0)
    if pressure == "normal" or (total and weights and weights < LARGE_SHARE * total):
        return None
    swap = (
        f", {memory.swap_used_bytes.value / GIB:.1f} GiB swapped" if isinstance(memory.swap_used_bytes, Known) else ""
    )
    return _found(
        f"memory pressure is {pressure} while the model is loaded{swap}",
        (cite(case, "machine.memory.pressure"),),
        total,
    )


def _by_words(case: Case) -> Found | Suspected | None:
    said = remarks_on(case, Topic.SWAPPING)
    if not said:
        return None
    seen = [remark for remark in said if _PAGED.search(remark.text) and re.search(r"\d", remark.text)]
    if not seen:
        return Suspected(said[0].text, "machine.memory.pressure", CAUSE.ask)
    return _found(f"the memory is too small for it: {seen[0].text}", cite_remarks(case, seen), 0.0)


def _found(because: str, evidence: tuple[Evidence, ...], limit: float) -> Found:
    smaller = Remedy(Knob.QUANT.to(None, "a smaller quant or model, or a shorter context"), None, "quality falls")
    wired = Knob.WIRED_LIMIT.to(int(limit * 1.15 / MIB) or None, "where the rest of the system leaves room for it")
    return Found(because, evidence, None, (smaller, Remedy(wired, None, "too high a limit can freeze the machine")))


CAUSE = Cause(
    title="The shared memory of GPU and CPU is too small",
    phase="decode",
    needs=(
        ("runtime.asked_bytes", "model.weights_bytes", "machine.memory.pressure", "account.remarks"),
        (
            "machine.system.name",
            "machine.cpu.model",
            "machine.gpus",
            "machine.memory.wired_limit_bytes",
            "runtime.name",
        ),
    ),
    check=check,
    explains=(
        "swapping",
        "weights_spill_to_ram",
        "weights_streamed_from_disk",
        "context_larger_than_needed",
        "model_outside_envelope",
    ),
    ask="`sysctl hw.memsize iogpu.wired_limit_mb vm.swapusage; memory_pressure | tail -1; ls -lh MODEL`",
)
