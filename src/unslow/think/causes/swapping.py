"""The system swaps memory to disk while tokens are generated.

## Why it is slow
What was swapped out has to be read back from disk before anything can be computed with it, a hundred times slower than
from RAM. If weights or KV cache are swapped out, every token waits for the disk.

## How to confirm
`vmstat 1` shows numbers under `si` while tokens are generated, and `/proc/pressure/memory` is not near zero. macOS:
`vm_stat 1`, the column `swapins`; Windows: "Hard Faults/sec" in the Resource Monitor.

## What it is not
Swap that is in use but idle. It does no harm: it may hold what other programs have not touched for days.

## How to fix
Free memory, or use less:
- any: close other programs, a smaller quant or model, more RAM; in a container a higher memory limit
- llama.cpp: a shorter `-c`; leave the weights mapped (`--load-mode mmap`): mapped weights are dropped instead of
  swapped; less `--cache-ram`
- Ollama: `OLLAMA_MAX_LOADED_MODELS=1`, a smaller `num_ctx`; LM Studio: unload other models, "Keep model in memory" off
- vLLM, Transformers: no `--cpu-offload-gb`, no `device_map` that puts layers on the CPU

## Safety
Answers do not change, except with a smaller quant. With swap switched off, the system kills a program instead of
slowing it down.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB, MIB, Known
from unslow.think.case.cure import Cure
from unslow.think.case.narrative import amount_bytes
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Route, Suspected, all_of, finding

PRESSED = 0.10  # Share of the time in which something waited for memory: a healthy system shows next to none
LEAST_SWAPPED = 512 * MIB  # Any system has some old pages in its swap
LEAST_LACKING = 64 * MIB  # Of the weights: every token reads all of them, so even this much is read back each time
LEAST_FAULTS = 1.0  # Per second, of the runtime itself: with fewer, none of its own pages was swapped out
HARMLESS, HARMFUL = 0.1 * MIB, 8 * MIB
"""Read back per second: pages of a program that wakes up, and an amount that is noticeable on any disk."""
SHORT = 0.05  # Of the memory, still available: the system has begun to look for more
AT_WORK = 0.5  # Of the cores: a runtime that computes on the CPU keeps at least this many busy, unless it waits
_SWAP = re.compile(r"swap|thrash|paged? out|paging", re.IGNORECASE)


def unified_memory(case: CaseView) -> Absent | None:
    """On a Mac, GPU and CPU share one memory: `unified_memory_pressure` covers it."""
    return Absent("GPU and CPU share one memory: see unified_memory_pressure") if case.gpus.is_apple else None


def swap_ins_at_work(case: CaseView) -> Found | Absent | None:
    """What was read back from swap while tokens were generated, and whether any of it was the runtime's."""
    back = case.telemetry.host_at_work("swap_in_bytes_per_s")
    own = case.telemetry.host_at_work("own_major_faults_per_s")
    if back is None:
        return None
    if own and own.mean < LEAST_FAULTS and back.mean >= HARMLESS:
        return Absent("other programs read pages back from swap, the runtime read none")
    words = f"{back.mean / MIB:.1f} MiB/s were read back from swap while tokens were generated"
    if back.mean < HARMLESS or (back.mean < HARMFUL and case.speed.is_slow is False):
        return Absent(words)
    if back.mean < HARMFUL:
        return None
    watched = case.telemetry.cite("swap_in_bytes_per_s", words, "none")
    return _swaps(case, words, (watched, *_memory_limit(case)), Cure())


def copied_weights(case: CaseView) -> Found | None:
    """Weights copied into less memory than they need: the rest can only be in swap."""
    totals = (case.machine.memory.total_bytes, case.runtime.process.memory_limit_bytes)
    limits = [fact.value for fact in totals if isinstance(fact, Known)]
    if case.runtime.placement.load_mode.get() != "none" or not limits or not case.gpus.has_none:
        return None
    lacking, used = case.memory.weights_bytes - min(limits), case.machine.memory.swap_used_bytes.get()
    if lacking < LEAST_LACKING or used is None or used < lacking or not case.speed.is_slow:
        return None
    because = f"the weights were copied into memory, {lacking / MIB:.0f} MiB of them do not fit and are swapped out"
    shown = (case.cite("machine.memory.swap_used_bytes"), case.cite("model.weights_bytes"), *_memory_limit(case))
    return _swaps(case, because, shown, Cure())


def little_swap_in_use(case: CaseView) -> Absent | None:
    """How much swap is in use: a little is normal on any system."""
    used = case.machine.memory.swap_used_bytes.get()
    return Absent(f"{used / MIB:.0f} MiB are swapped out") if used is not None and used < LEAST_SWAPPED else None


def memory_pressure(case: CaseView) -> Found | Absent | Suspected | None:
    """How long something waited for memory; a low value rules swapping out only at work, or with memory to spare."""
    used, pressure = case.machine.memory.swap_used_bytes.get(), case.machine.load.memory_pressure.get()
    if used is None or pressure is None:
        return None
    because = f"{used / GIB:.1f} GiB are swapped out, and something waits for memory {pressure:.0%} of the time"
    if case.speed.is_slow is False:
        return Absent(f"{because}, but decode is as fast as expected")
    if pressure >= PRESSED and case.placement.computes_all_on_gpus and not case.speed.is_slow:
        return Suspected(because, "the expected speed: the GPU computes everything", CAUSE.ask)
    if pressure >= PRESSED:
        shown = (case.cite("machine.memory.swap_used_bytes"), case.cite("machine.load.memory_pressure"))
        return _swaps(case, because, shown, Cure())
    busy, cores = case.machine.load.busy_cpus.get(), case.machine.cpu.physical_cores.get()
    was_at_work = busy is not None and cores is not None and busy >= AT_WORK * cores
    # What is read back can stay where memory is left, in the machine and within the runtime's own limit
    left, total = case.machine.memory.available_bytes.get(), case.machine.memory.total_bytes.get()
    limit, weights = case.runtime.process.memory_limit_bytes.get(), case.model.weights_bytes.get()
    is_boxed = limit is not None and (weights is None or weights >= limit)
    has_room = left is not None and total is not None and left >= SHORT * total and not is_boxed
    if has_room or was_at_work:
        return Absent(because)
    return Suspected(because, "what is read back from swap while it generates", CAUSE.ask)


def memory_left(case: CaseView) -> Suspected | None:
    """How much memory is available beside the swap in use, where the pressure was not measured."""
    memory = case.machine.memory
    used, total, left = memory.swap_used_bytes.get(), memory.total_bytes.get(), memory.available_bytes.get()
    if used is None or total is None or left is None or left >= SHORT * total:
        return None
    because = f"{used / GIB:.1f} GiB are swapped out, and {left / GIB:.1f} of {total / GIB:.1f} GiB are available"
    return Suspected(because, "machine.load.memory_pressure", CAUSE.ask)


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """A person who saw the system swap; it counts where they name an amount."""
    said = [r for r in case.narrative.remarks_on(Topic.SWAPPING) if _SWAP.search(r.text)]
    if not said:
        return None
    if not amount_bytes(said[0].text):
        return Suspected(said[0].text, "machine.memory.swap_used_bytes", CAUSE.ask)
    return _swaps(case, f"the system swaps: {said[0].text}", case.narrative.cite_remarks(said))


def _memory_limit(case: CaseView) -> Citations:
    """The limit of its control group: beyond it the runtime swaps, whatever the machine has."""
    return case.cite_known("runtime.process.memory_limit_bytes", reference="memory limit of its control group")


def _swaps(case: CaseView, because: str, shown: Citations, cure: Cure | None = None) -> Found:
    """With the cure of the case as configured: physics assumes that all memory is there."""
    less = Knob.QUANT.to(None, "close other programs, shorten the context, or use a smaller quant or model")
    fixes = [Remedy(less, cure)]
    if case.runtime.placement.load_mode.get() == "none":  # copied weights are swapped, mapped ones only dropped
        mapped = Knob.LOAD_MODE.to("mmap", "map the weights: what does not fit is dropped instead of swapped out")
        fixes.append(Remedy(mapped))
    return finding(case, because, shown, cure=cure, fixes=fixes)


CAUSE = Cause(
    title="The system swaps memory to disk",
    phase="decode",
    needs=all_of("run.telemetry or machine.memory.swap_used_bytes or account.remarks"),
    routes=(
        Route("counted", unified_memory),
        Route("measured", swap_ins_at_work),
        Route("counted", copied_weights),
        Route("measured", little_swap_in_use),
        Route("measured", memory_pressure),
        Route("measured", memory_left),
        Route("told", said_by_person),
    ),
    ask="while it generates: {swap}",
)
