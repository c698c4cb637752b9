"""Room for several conversations at once is kept in the KV cache, and it pushes layers out of the GPU.

## Why it is slow
With N slots the runtime keeps N contexts, used or not. Ollama multiplies `num_ctx` by `OLLAMA_NUM_PARALLEL`, llama.cpp
gives each of `-np` slots its share of `-c`. For a single user all but one of them are memory that the weights lack.

Guides advise more parallel requests for a GPU that is not fully used, but that raises what all users get together, and
never the speed of one.

## How to confirm
The KV cache is slots x context; at one slot all layers, or more of them, would fit.

## What it is not
A unified cache (`--kv-unified`, llama.cpp's default without `-np`), which the slots share and which does not multiply.
Nor slots that several people do use.

## How to fix
As many slots as there are people at the same time:
- llama.cpp: `-np 1`, or `--kv-unified`
- Ollama: `OLLAMA_NUM_PARALLEL=1` in the environment of the service
- LM Studio: `lms load KEY --parallel 1`, "Unified KV cache" on
- vLLM and SGLang give out the cache in blocks as requests come: `--max-num-seqs` costs no cache

## Safety
Further requests wait for their turn.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known, first_known
from unslow.think.case.demand import fitting_placement, read_demand, read_shape
from unslow.think.case.placement import counted_layers, grown_beyond_weights, layers_left_on_host, seen_split
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._facts import cite, need
from unslow.think.causes._memory_remedies import brings_back_enough

MANY = 4  # Slots: with fewer of the usual size, their caches are small beside the weights
USUAL_CONTEXT = 8192  # Tokens for one slot: with a longer context than this for each, the context is the matter
IN_USE = 2  # Slots that are busy at once: then they are there for a reason
_EXPLAINS = ("weights_spill_to_ram", "context_larger_than_needed", "other_process_holds_vram")
_EXPLAINS_IN_PART = _EXPLAINS[:2]
"""Where layers stay on the host even with one slot: what others hold is then a cause of its own."""


def check(case: Case) -> Found | Absent | Suspected:
    """See how many more layers would fit with the context of one slot."""
    failure = case.runtime.allocation_failure.value_or(None)
    if failure and failure.what == "weights":
        return Absent("the weights themselves found no room")
    slots = need(case, "runtime.slots")
    if slots <= 1:
        return Absent("there is one slot")
    if case.runtime.kv_unified.value_or(default=False):
        return Absent(f"{slots} slots share one cache")
    if case.runtime.busy_slots.value_or(0) >= IN_USE:
        return Absent(f"{case.runtime.busy_slots.value_or(0)} of {slots} slots are in use")
    return first_to_decide(case, _by_layers, _by_reckoning, _by_sizes, _by_setting)


def _by_layers(case: Case) -> Found | Absent:
    _must_be_apart(case)
    if not layers_left_on_host(case):
        return Absent("all layers are on the GPU")
    shape, demand = read_shape(case), read_demand(case)
    slots, now = case.runtime.slots.need(), counted_layers(case).on_gpu
    context = case.runtime.context_length.need() // slots
    then = fitting_placement(case, shape, demand.available, context)
    fitting = int(then.gpu_layers) + then.output_on_gpu
    cure = Cure(vram_bytes=demand.available, context=context)
    if not brings_back_enough(case, cure, fitting - now, layers_left_on_host(case)):
        return Absent(f"even with one slot {'only' if fitting > now else 'no more than'} {fitting} layers fit")
    fit = f"with one slot {fitting} of {shape.layers + 1} layers fit on the GPU instead of {now}"
    found = _found(case, f"{slots} slots of {context} tokens each; {fit}", cure)
    return found if fitting > shape.layers else found._replace(explains=_EXPLAINS_IN_PART)


def _must_be_apart(case: Case) -> None:
    """Only slots that share no cache multiply it; in Ollama each has its own."""
    if "ollama" not in case.runtime.name.value_or("").lower():
        need(case, "runtime.kv_unified")


def _by_reckoning(case: Case) -> Found | None:
    """By the runtime's own sums: all of it does not fit, and with one slot's share of the cache it would."""
    runtime = case.runtime
    if not isinstance(runtime.kv_bytes, Known) or not seen_split(case):
        return None
    _must_be_apart(case)
    asked, available, slots = runtime.asked_bytes.need(), runtime.available_bytes.need(), runtime.slots.need()
    without = asked - runtime.kv_bytes.value * (1 - 1 / slots)
    if not without <= available < asked:
        return None
    because = f"{asked / GIB:.1f} GiB are asked for {slots} slots, and {available / GIB:.1f} GiB were free; one slot "
    return _found(case, f"{because}asks for {without / GIB:.1f} GiB", None)


def _by_sizes(case: Case) -> Found | None:
    """By what the loaded model takes in all, where many slots and no long context were asked for."""
    grown, slots = grown_beyond_weights(case), case.runtime.slots.need()
    context = first_known(case.runtime.context_set, case.runtime.context_length).value_or(0)
    if grown is None or slots < MANY or context > slots * USUAL_CONTEXT:
        return None
    _must_be_apart(case)
    because = f"{grown.size / GIB:.0f} GiB are taken for {slots} slots, and the weights are about "
    return _found(case, f"{because}{grown.weights / GIB:.0f} GiB: alone they would fit on the GPU", None)


def _by_setting(case: Case) -> Suspected | None:
    """Slots that were asked for, each with a cache of its own, beside a model that found no room."""
    split = seen_split(case)
    if split is None:
        return None
    words = f"{split.words}, and {case.runtime.slots.need()} slots have a KV cache each"
    return Suspected(words, "runtime.kv_bytes", CAUSE.ask)


def _found(case: Case, because: str, cure: Cure | None) -> Found:
    return Found(
        because=because,
        evidence=(cite(case, "runtime.slots"),),
        cure=cure,
        remedies=(Remedy(Knob.PARALLEL.to(1, "one slot for one user"), cure, "further requests wait"),),
        explains=_EXPLAINS,
    )


CAUSE = Cause(
    title="Parallel slots multiply the KV cache",
    phase="decode",
    needs=(
        ("runtime.slots", "runtime.allocation_failure"),
        ("runtime.gpu_layers", "runtime.vram_share", "runtime.allocation_failure", "machine.gpus.0.processes"),
    ),
    check=check,
    on_gpu=True,
    ggml_only=True,
    fails_load=True,
    explains=_EXPLAINS,
    gpu_only=True,
    ask="the number of slots ({command_line}), and {placement}",
)
