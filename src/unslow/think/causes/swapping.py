"""The system swaps memory to disk while tokens are generated.

## Why it is slow
What was swapped out must be read back from disk before it can be computed with, a hundred times slower than from RAM.
With weights or KV cache among it every token waits for the disk.

## How to confirm
`vmstat 1` shows numbers under `si` while tokens are generated, and `/proc/pressure/memory` is not near zero. macOS:
`vm_stat 1`, the column `swapins`; Windows: "Hard Faults/sec" of the Resource Monitor.

## What it is not
Swap that is in use but still, which does no harm: it may be what other programs have not touched for days.

## How to fix
Free memory, or ask for less of it:
- any: close other programs, a smaller quant or model, more RAM; in a container a higher memory limit
- llama.cpp: a shorter `-c`; leave the weights mapped (`--load-mode mmap`), which are dropped instead of swapped; less
  `--cache-ram`
- Ollama: `OLLAMA_MAX_LOADED_MODELS=1`, a smaller `num_ctx`; LM Studio: unload other models, "Keep model in memory" off
- vLLM, Transformers: no `--cpu-offload-gb`, no `device_map` that puts layers on the CPU

## Safety
Answers do not change, but for a smaller quant. Switching swap off ends a program instead of slowing it down.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, Known
from unslow.think.case.gpus import has_no_gpu, is_apple
from unslow.think.case.narrative import amount_bytes, remarks_on
from unslow.think.case.placement import computes_all_on_gpus
from unslow.think.case.slowness import generates_slowly
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import cite_watched, host_at_work
from unslow.think.causes._facts import cite, cite_known, cite_remarks

PRESSED = 0.10  # Share of the time in which something waited for memory: a healthy system shows next to none
LEAST_SWAPPED = 512 * MIB  # Any system has some old pages in its swap
LEAST_LACKING = 64 * MIB
"""Of the weights: every token reads all of them, so that even this little comes back from disk each time."""
LEAST_FAULTS = 1.0  # In a second, of the runtime itself: without them nothing of its own was away
HARMLESS, HARMFUL = 0.1 * MIB, 8 * MIB
"""Read back in a second: pages of a program that wakes up, and what holds up any disk's owner."""
SHORT = 0.05  # Of the memory that is still available: the system has begun to look for more
AT_WORK = 0.5  # Of the cores: a runtime that computes on the CPU keeps at least so many busy, unless it waits
_SWAP = re.compile(r"swap|thrash|paged? out|paging", re.IGNORECASE)


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the pressure on memory against the swap that is in use."""
    if is_apple(case):
        return Absent("GPU and CPU share one memory here, which is another matter")
    answer = first_to_decide(case, _by_watching, _by_limit, _by_counters, _by_words)
    if not isinstance(answer, Found) or case.runtime.load_mode.value_or("") != "none":
        return answer
    # Weights that were copied are written to swap; mapped ones are only dropped, and read again where need be
    mapped = Knob.LOAD_MODE.to("mmap", "map the weights, so that what lacks room is dropped instead of swapped out")
    return answer._replace(remedies=(*answer.remedies, Remedy(mapped)))


def _by_limit(case: Case) -> Found | None:
    """Weights that were copied into less memory than they take: the rest of them can only be in the swap."""
    runtime, used = case.runtime, case.machine.memory.swap_used_bytes.value_or(0)
    limits = [f.value for f in (case.machine.memory.total_bytes, runtime.memory_limit_bytes) if isinstance(f, Known)]
    if runtime.load_mode.value_or("") != "none" or not limits or not has_no_gpu(case):
        return None
    lacking = case.model.weights_bytes.value_or(0) - min(limits)
    if lacking < LEAST_LACKING or used < lacking or not generates_slowly(case):
        return None
    copied = f"the weights were copied into memory, {lacking / MIB:.0f} MiB of them have no room there"
    shown = (cite(case, "machine.memory.swap_used_bytes"), cite(case, "model.weights_bytes"), *_limit(case))
    return _found(f"{copied}, and as many are swapped out", shown, Cure())


def _by_watching(case: Case) -> Found | Absent | None:
    """What came back from swap while tokens were generated: what is seen beats any sum."""
    back = host_at_work(case, "swap_in_bytes_per_s")
    own = host_at_work(case, "own_major_faults_per_s")
    if back is None:
        return None
    if own and own.mean < LEAST_FAULTS and back.mean >= HARMLESS:
        return Absent("pages of other programs came back from swap, and none of the runtime's")
    words = f"{back.mean / MIB:.1f} MiB a second came back from swap while tokens were generated"
    if back.mean < HARMLESS or (back.mean < HARMFUL and generates_slowly(case) is False):
        return Absent(words)
    if back.mean < HARMFUL:
        return None
    return _found(words, (cite_watched(case, "swap_in_bytes_per_s", words, "none"), *_limit(case)), Cure())


def _limit(case: Case) -> Citations:
    """What its control group may use: beyond that it swaps, however much the machine has."""
    return cite_known(case, "runtime.memory_limit_bytes", reference="its control group may use so much")


def _by_counters(case: Case) -> Found | Absent | Suspected | None:
    memory, pressure = case.machine.memory, case.machine.load.memory_pressure
    if not isinstance(memory.swap_used_bytes, Known):
        return None
    used = memory.swap_used_bytes.value
    if used < LEAST_SWAPPED:
        return Absent(f"{used / MIB:.0f} MiB are swapped out")
    if isinstance(pressure, Known):
        return _by_pressure(case, used, pressure.value)
    total, left = memory.total_bytes.value_or(0), memory.available_bytes.value_or(0)
    if total and isinstance(memory.available_bytes, Known) and left < SHORT * total:
        because = f"{used / GIB:.1f} GiB are swapped out, and {left / GIB:.1f} of {total / GIB:.1f} GiB are available"
        return Suspected(because, "machine.load.memory_pressure", CAUSE.ask)
    return None


def _by_pressure(case: Case, used: float, pressure: float) -> Found | Absent | Suspected:
    """The pressure of some moment: low, it rules swapping out only where tokens came then, or where there is room."""
    because = f"{used / GIB:.1f} GiB are swapped out, and {pressure:.0%} of the time something waits for memory"
    if generates_slowly(case) is False:
        return Absent(f"{because}, but tokens come as fast as they should")
    if pressure >= PRESSED and computes_all_on_gpus(case) and not generates_slowly(case):
        return Suspected(because, "how fast it should be: the GPU computes all of it", CAUSE.ask)
    if pressure >= PRESSED:
        read = ("machine.memory.swap_used_bytes", "machine.load.memory_pressure")
        return _found(because, tuple(cite(case, path) for path in read), Cure())
    busy, cores = case.machine.load.busy_cpus, case.machine.cpu.physical_cores
    was_at_work = isinstance(busy, Known) and isinstance(cores, Known) and busy.value >= AT_WORK * cores.value
    # Whether what comes back from swap can stay: memory is left, in the machine and in the runtime's own limit
    left, total = case.machine.memory.available_bytes, case.machine.memory.total_bytes
    limit, weights = case.runtime.memory_limit_bytes, case.model.weights_bytes
    boxed = isinstance(limit, Known) and not (isinstance(weights, Known) and weights.value < limit.value)
    roomy = isinstance(left, Known) and isinstance(total, Known) and left.value >= SHORT * total.value and not boxed
    if roomy or was_at_work:
        return Absent(because)
    return Suspected(because, "what comes back from swap while it generates", CAUSE.ask)


def _by_words(case: Case) -> Found | Suspected | None:
    """Gigabytes of swap that somebody watched at work."""
    said = [r for r in remarks_on(case, Topic.SWAPPING) if _SWAP.search(r.text)]
    if not said:
        return None
    if not amount_bytes(said[0].text):
        return Suspected(said[0].text, "machine.memory.swap_used_bytes", CAUSE.ask)
    return _found(f"the system swaps: {said[0].text}", cite_remarks(case, said))


def _found(because: str, evidence: Citations, cure: Cure | None = None) -> Found:
    change = Knob.QUANT.to(None, "fewer other programs, a shorter context, or a smaller quant or model")
    # physics reckons with memory that is there, so the case as configured is the cured one
    return Found(because, evidence, cure, (Remedy(change, cure),))


CAUSE = Cause(
    title="The system swaps memory to disk",
    phase="decode",
    needs=(("run.telemetry", "machine.memory.swap_used_bytes", "account.remarks"),),
    check=check,
    ask="while it generates: {swap}",
)
