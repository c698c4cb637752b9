"""Several slots each keep their own KV cache, which pushes layers off the GPU.

## Why it is slow
With N slots the runtime keeps N contexts, used or not. Ollama multiplies `num_ctx` by `OLLAMA_NUM_PARALLEL`; llama.cpp
gives each of `-np` slots its share of `-c`. For a single user all but one of them are memory that the weights lack.

Guides advise more parallel requests for a GPU that is not fully used, but that raises the throughput of all users
together, never the speed of one.

## How to confirm
The KV cache is slots x context; with one slot all layers, or more of them, would fit.

## What it is not
A unified cache (`--kv-unified`, llama.cpp's default without `-np`), which the slots share and which does not multiply.
Nor slots that several people do use.

## How to fix
As many slots as there are simultaneous users:
- llama.cpp: `-np 1`, or `--kv-unified`
- Ollama: `OLLAMA_NUM_PARALLEL=1` in the environment of the service
- LM Studio: `lms load KEY --parallel 1`, "Unified KV cache" on
- vLLM and SGLang allocate cache blocks as requests come: `--max-num-seqs` costs no cache

## Safety
Further requests wait in the queue.
"""

from unslow.facts.knob import Knob
from unslow.facts.values import GIB, first_known
from unslow.think.case.cure import Cure
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding, weights_failed
from unslow.think.plan.free_memory import brings_back_enough

SLOTS = "runtime.scheduling.slots"
MANY = 4  # Slots: with fewer of the usual size, their caches are small beside the weights
USUAL_CONTEXT = 8192  # Tokens for one slot: with a longer context for each, the context is the cause
IN_USE = 2  # Slots that are busy at once: then they are there for a reason
EXPLAINS = ("weights_spill_to_ram", "context_larger_than_needed", "other_process_holds_vram")
EXPLAINS_IN_PART = EXPLAINS[:2]
"""Where layers stay on the host even with one slot: what other processes hold is then a cause of its own."""


def no_idle_slots(case: CaseView) -> Absent | None:
    """There is one slot, the slots share a cache, or several are busy."""
    slots, busy = case.need(SLOTS), case.runtime.scheduling.busy_slots.get()
    if slots <= 1:
        return Absent("there is one slot")
    if case.runtime.cache.unified.get():
        return Absent(f"{slots} slots share one cache")
    return Absent(f"{busy} of {slots} slots are in use") if busy is not None and busy >= IN_USE else None


def layers_with_one_slot(case: CaseView) -> Found | Absent:
    """How many more layers would fit with the context of one slot."""
    slots = case.need(SLOTS)
    _need_separate_caches(case)
    left = case.placement.layers_on_host
    if not left:
        return Absent("all layers are on the GPU")
    layers, demand, now = case.memory.shape.layers, case.memory.demand(), case.placement.layers.on_gpu
    context = case.runtime.context.length.need() // slots
    fitting = case.memory.layers_that_fit(demand.available, context)
    cure = Cure(vram_bytes=demand.available, context=context)
    if not brings_back_enough(case, cure, fitting - now, left):
        return Absent(f"even with one slot only {fitting} layers fit")
    fit = f"with one slot {fitting} of {layers + 1} layers fit on the GPU instead of {now}"
    explains = EXPLAINS if fitting > layers else EXPLAINS_IN_PART
    return _slots_finding(case, f"{slots} slots of {context} tokens each; {fit}", cure, explains)


def runtimes_own_sum(case: CaseView) -> Found | None:
    """By the runtime's own sums the model does not fit, and with one slot's share of the cache it would."""
    cache, slots = case.runtime.cache.bytes.get(), case.need(SLOTS)
    if cache is None or not case.placement.split:
        return None
    _need_separate_caches(case)
    asked, free = case.runtime.memory.asked_bytes.need(), case.runtime.memory.available_bytes.need()
    with_one = asked - cache * (1 - 1 / slots)
    if not with_one <= free < asked:
        return None
    sums = f"{slots} slots need {asked / GIB:.1f} GiB, and {free / GIB:.1f} GiB were free"
    return _slots_finding(case, f"{sums}; one slot needs {with_one / GIB:.1f} GiB")


def grown_beyond_weights(case: CaseView) -> Found | None:
    """The loaded model is much larger than its weights, with many slots and no long context."""
    grown, slots = case.placement.growth_beyond_weights, case.need(SLOTS)
    context = first_known(case.runtime.context.requested, case.runtime.context.length).get()
    if grown is None or slots < MANY or (context is not None and context > slots * USUAL_CONTEXT):
        return None
    _need_separate_caches(case)
    sizes = (
        f"the model takes {grown.size / GIB:.0f} GiB with {slots} slots, its weights about {grown.weights / GIB:.0f}"
    )
    return _slots_finding(case, f"{sizes} GiB: they would fit on the GPU")


def slots_beside_split(case: CaseView) -> Suspected | None:
    """Several slots, each with its own cache, and a model that did not fit."""
    split, slots = case.placement.split, case.need(SLOTS)
    if split is None:
        return None
    return Suspected(f"{split.words}, and each of {slots} slots has its own KV cache", "runtime.cache.bytes", CAUSE.ask)


def _need_separate_caches(case: CaseView) -> None:
    """Only slots that do not share a cache multiply it; in Ollama each has its own."""
    if "ollama" not in case.engine.name:
        case.need("runtime.cache.unified")


def _slots_finding(
    case: CaseView, because: str, cure: Cure | None = None, explains: tuple[str, ...] = EXPLAINS
) -> Found:
    one = Remedy(Knob.PARALLEL.to(1, "one slot for one user"), cure, "further requests wait")
    return finding(case, because, SLOTS, cure=cure, fixes=[one], explains=explains)


CAUSE = Cause(
    title="Parallel slots multiply the KV cache",
    phase="decode",
    needs=all_of(
        "runtime.scheduling.slots or runtime.memory.allocation_failure",
        "runtime.placement.gpu_layers or runtime.memory.vram_share or runtime.memory.allocation_failure or "
        "machine.gpus.0.processes",
    ),
    routes=(
        Route("log", weights_failed),
        Route("counted", no_idle_slots),
        Route("counted", layers_with_one_slot),
        Route("log", runtimes_own_sum),
        Route("log", grown_beyond_weights),
        Route("counted", slots_beside_split),
    ),
    on_gpu=True,
    ggml_only=True,
    fails_load=True,
    explains=EXPLAINS,
    gpu_only=True,
    ask="the number of slots ({command_line}), and {placement}",
)
