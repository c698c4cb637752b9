"""The system swaps memory to disk while tokens are generated.

## Why it is slow
What was swapped out must be read back from disk before it can be computed with, a hundred times slower than from RAM.
With weights or KV cache among it every token waits for the disk.

## How to confirm
`vmstat 1` shows numbers under `si` and `so` while tokens are generated, and `/proc/pressure/memory` is not near zero.
Swap that is in use but still does no harm: it may be what other programs have not touched for days.

## How to fix
Close other programs, a smaller quant or model, a shorter context, or more RAM.

## Safety
Answers do not change, but for a smaller quant.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB, MIB
from unslow.facts.values import Known
from unslow.think.adapt.account import amount_bytes, remarks_on
from unslow.think.adapt.hardware import is_apple
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._routes import cite_remarks, first_to_decide
from unslow.think.report import Evidence

PRESSED = 0.10
"""Share of the time in which something waited for memory: a healthy system shows next to none."""
LEAST_SWAPPED = 512 * MIB
SHORT = 0.05
"""Of the memory that is still available: the system has begun to look for more."""
_SWAP = re.compile(r"swap|thrash|paged? out|paging", re.IGNORECASE)


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the pressure on memory against the swap that is in use."""
    if is_apple(case):
        return Absent("GPU and CPU share one memory here, which is another matter")
    return first_to_decide(case, _by_counters, _by_words)


def _by_counters(case: Case) -> Found | Absent | Suspected | None:
    memory, pressure = case.machine.memory, case.machine.load.memory_pressure
    if not isinstance(memory.swap_used_bytes, Known):
        return None
    used = memory.swap_used_bytes.value
    if used < LEAST_SWAPPED:
        return Absent(f"{used / MIB:.0f} MiB are swapped out")
    if isinstance(pressure, Known):
        if pressure.value < PRESSED:
            return Absent(f"{used / GIB:.1f} GiB are swapped out, and nothing waits for them ({pressure.value:.0%})")
        because = (
            f"{used / GIB:.1f} GiB are swapped out, and {pressure.value:.0%} of the time something waits for memory"
        )
        return _found(
            because, (cite(case, "machine.memory.swap_used_bytes"), cite(case, "machine.load.memory_pressure"))
        )
    total, left = memory.total_bytes.value_or(0), memory.available_bytes.value_or(0)
    if total and isinstance(memory.available_bytes, Known) and left < SHORT * total:
        because = f"{used / GIB:.1f} GiB are swapped out, and {left / GIB:.1f} of {total / GIB:.1f} GiB are available"
        return Suspected(because, "machine.load.memory_pressure", CAUSE.ask)
    return None


def _by_words(case: Case) -> Found | Suspected | None:
    """Gigabytes of swap that somebody watched at work."""
    said = [r for r in remarks_on(case, Topic.SWAPPING) if _SWAP.search(r.text)]
    if not said:
        return None
    if not amount_bytes(said[0].text):
        return Suspected(said[0].text, "machine.memory.swap_used_bytes", CAUSE.ask)
    return _found(f"the system swaps: {said[0].text}", cite_remarks(case, said))


def _found(because: str, evidence: tuple[Evidence, ...]) -> Found:
    change = Knob.QUANT.to(None, "a smaller quant, model or context, or fewer other programs")
    return Found(because, evidence, None, (Remedy(change),))


CAUSE = Cause(
    title="The system swaps memory to disk",
    phase="decode",
    needs=(("machine.memory.swap_used_bytes", "account.remarks"),),
    check=check,
    ask='`vmstat 1 5` while it generates (Windows: "Hard faults/sec" in the Resource Monitor)',
)
