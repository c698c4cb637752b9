"""As the conversation grows, its KV cache no longer has room on the GPU.

## Why it is slow
Keys and values of every token so far are read again for each new one. On the GPU that costs little for thousands of
tokens. A cache that has grown past the GPU's memory is read over PCIe or from RAM, and speed falls off a cliff instead
of down a gentle slope.

## How to confirm
Speed at the start of a chat and deep in it differ by far more than the cache's bytes explain, and the GPU's memory is
full (or shared GPU memory is in use) when it is slow.

## How to fix
A KV cache of type q8_0, a shorter context, fewer parallel slots, or a smaller quant that leaves more room.

## Safety
A q8_0 cache changes the answers slightly; a shorter context cuts long conversations.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import MIB
from unslow.facts.values import Known
from unslow.think.adapt.account import ratio, remarks_on
from unslow.think.adapt.experiments import experiment_on
from unslow.think.adapt.vram import gpus_used
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected
from unslow.think.causes._routes import cite_comparison, cite_remarks, first_to_decide
from unslow.think.report import Evidence

CLIFF = 2.5
"""A gentle slope stays below this: at 32,000 tokens of an 8B model the cache is about as large as the weights."""
FULL_BYTES = 600 * MIB
"""Free memory of a GPU that is full: what drivers and allocators leave."""


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the fall of the speed with depth against what reading a longer cache costs."""
    return first_to_decide(case, _by_fall)


def _by_fall(case: Case) -> Found | Absent | Suspected | None:
    fall = experiment_on(case, Topic.DEPTH, Topic.CONTEXT, metrics=("decode",))
    if fall is None:
        return None
    if ratio(fall) < CLIFF:
        return Absent(f"{ratio(fall):.1f} times slower with depth: the ordinary cost of a longer cache")
    full = _full(case)
    if not full:
        why = f"{ratio(fall):.1f} times slower with depth: {fall.text}"
        return Suspected(why, "machine.gpus.0.vram_free_bytes", CAUSE.ask)
    return Found(
        because=f"deep in the context it is {ratio(fall):.1f} times slower, and the GPU's memory is full",
        evidence=(cite_comparison(case, fall), *full),
        remedies=(
            Remedy(Knob.KV_CACHE_TYPE.to("q8_0", "halves the KV cache"), None, "answers change slightly"),
            Remedy(Knob.CONTEXT_LENGTH.to(None, "a context that fits"), None, "long chats are cut"),
        ),
        speedup=ratio(fall),
    )


def _full(case: Case) -> tuple[Evidence, ...]:
    """What shows that the GPU's memory is used up."""
    for gpu in gpus_used(case):
        free = gpu.vram_free_bytes
        if isinstance(free, Known) and free.value < FULL_BYTES:
            item = Evidence(
                fact=f"machine.gpus.{gpu.index}.vram_free_bytes", value=free.value, reference=None,
                origin=str(free.origin), source=free.source,
            )  # fmt: skip
            return (item,)
    return cite_remarks(case, remarks_on(case, Topic.VRAM_FULL, Topic.SHARED_MEMORY_USED))


CAUSE = Cause(
    title="The KV cache outgrows the GPU's memory",
    phase="decode",
    needs=("account.comparisons",),
    check=check,
    explains=("driver_spills_to_shared_memory",),
    gpu_only=True,
    ask="`nvidia-smi --query-gpu=memory.used,memory.free,utilization.gpu --format=csv -l 2` while the chat grows slow",
)
