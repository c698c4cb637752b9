"""The runtime reckoned with more memory than the model takes, and left layers on the CPU beside free GPU memory.

## Why it is slow
The placement is decided before anything is allocated, from an estimate. One that is too large keeps layers on the CPU
for good, though they would have had room.

## How to confirm
Layers are on the CPU, nothing set their number, and once the model is loaded far more GPU memory is free than the
margin and a layer take. Old versions of Ollama print the estimate as `memory.required.full` against
`memory.available`.

## What it is not
Memory that another program held at the load and has given back since: load the model again. Nor a number of layers
that somebody set.

## How to fix
Set the number of layers yourself, or lower the margin; newer versions estimate better:
- llama.cpp: `--fit-target 512` (MiB that stay free, 1024 by default), or `-ngl N` step by step
- Ollama: `num_gpu N`; `LLAMA_ARG_FIT_TARGET=512` from 0.30 on; no `OLLAMA_GPU_OVERHEAD`
- LM Studio: the GPU offload slider, "Limit weight offload to dedicated GPU memory" off
- Transformers: `max_memory={0: "22GiB", "cpu": "64GiB"}` with `device_map="auto"`

## Safety
Too many layers end in an out-of-memory error at load, or later at full context: go up step by step.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known
from unslow.think.case.demand import missing, read_shape
from unslow.think.case.gpus import is_unified, vram_total_bytes
from unslow.think.case.narrative import amount_bytes, places_layers_itself, remarks_on, settings_unread
from unslow.think.case.placement import layers_left_on_host, seen_split, set_on_purpose
from unslow.think.case.vram import available_vram_bytes, gpus_used, margin_bytes
from unslow.think.case.work import EVERYTHING, Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._facts import ask_for, cite, cite_remarks, if_known

ROOM_FOR = 2  # Layers that must fit beside the margin: room for less than that is what rounding leaves
FAR_LESS = 0.6  # Of what was planned for the GPUs: with less in use, the plan was wrong
JUST_AS_FREE = 0.9  # Of what was free before the load: a model that is in part on the GPU takes more than the rest
BARELY = 1.25  # Where more than this times what was free is asked for, it is no matter of a careful estimate


def check(case: Case) -> Found | Absent | Suspected:
    """Hold what is free after the load against what a layer takes."""
    refused = None if settings_unread(case) else _by_own_sum(case)
    if refused:
        return refused
    # The runtime accounts for all of the model, so that a split would have been seen
    counted = isinstance(case.runtime.gpu_layers, Known) and isinstance(case.runtime.layers, Known)
    accounted = counted or isinstance(case.runtime.vram_share, Known)
    if seen_split(case) is None and accounted and not remarks_on(case, Topic.LAYERS_FIT_BY_HAND):
        return Absent("no layer was left out by an estimate")
    if set_on_purpose(case):
        return Absent("a setting decides on the number of layers")
    if is_unified(case) and case.machine.memory.pressure.value_or("normal") != "normal":
        return Absent("the memory that GPU and CPU share is short: an estimate leaves layers out with reason")
    if settings_unread(case):
        ask_for(case, "runtime.command", "{command_line}")
    return first_to_decide(case, _by_reading, _by_plan, _by_hand, _by_words)


def _by_own_sum(case: Case) -> Found | None:
    """No layer on the GPU, though by the runtime's own sum all of it had room there."""
    runtime = case.runtime
    asked, available = float(runtime.asked_bytes.value_or(0)), float(runtime.available_bytes.value_or(0))
    none = runtime.gpu_layers.value_or(None) == 0 and runtime.layers.value_or(0) > 1
    if not none or set_on_purpose(case) or not 0 < asked <= available:
        return None
    return Found(
        because=f"no layer is on the GPU, though {asked / GIB:.1f} GiB were asked for and {available / GIB:.1f} GiB "
        "were free by the runtime's own sum",
        evidence=(
            cite(case, "runtime.asked_bytes", f"{available / GIB:.1f} GiB free"),
            cite(case, "runtime.gpu_layers"),
        ),
        cure=EVERYTHING,
        remedies=(Remedy(Knob.GPU_LAYERS.to(-1, "all layers, by hand"), EVERYTHING, "it may run out"),),
    )


def _by_reading(case: Case) -> Found | Absent:
    if seen_split(case) is None and not layers_left_on_host(case):
        return Absent("no layer was left out by an estimate")
    free, layer, margin = _free_now(case), _layer_bytes(case), margin_bytes(case)
    if free > JUST_AS_FREE * available_vram_bytes(case):
        raise missing("how much GPU memory is free after the load", CAUSE.ask)  # this was read before it
    if free < margin + ROOM_FOR * layer:
        return Absent(
            f"{free / GIB:.1f} GiB are free, a layer takes {layer / GIB:.1f} and the margin {margin / GIB:.1f}"
        )
    total_bytes = vram_total_bytes(case)
    if total_bytes is None:
        raise missing("how much memory the GPU has", "{gpu_memory}")
    # What others held when it was loaded: they may only have made way since
    if free - max(0.0, total_bytes - available_vram_bytes(case)) < margin + layer:
        return Absent(f"{free / GIB:.1f} GiB are free now, but were not when it was loaded")
    more = int((free - margin) / layer)
    split = seen_split(case)
    total, now = case.runtime.layers.value_or(0), case.runtime.gpu_layers.value_or(0)
    reached = min(total, now + more) if total else None
    cure = Cure(vram_bytes=available_vram_bytes(case) + margin)
    gpu = gpus_used(case)[0]
    name = "vram_free_bytes" if isinstance(gpu.vram_free_bytes, Known) else "vram_used_bytes"
    read = f"machine.gpus.{case.machine.gpus.value_or(()).index(gpu)}.{name}"
    return Found(
        because=f"{split.words if split else 'layers are on the CPU'}, yet {free / GIB:.1f} GiB of GPU memory stay "
        f"free after the load, and a layer takes {layer / GIB:.1f} GiB",
        evidence=(cite(case, read, f"{free / GIB:.1f} GiB free"), *((cite(case, split.fact),) if split else ())),
        cure=cure,
        remedies=(Remedy(Knob.GPU_LAYERS.to(reached, "as many as fit beside the margin"), cure, "it may run out"),),
    )


def _by_plan(case: Case) -> Found | None:
    """What the runtime planned for the GPUs against what is in use on them, where part of the model was left out."""
    split, planned = seen_split(case), float(case.runtime.size_vram_bytes.value_or(0))
    gpus = gpus_used(case)
    if not split or not planned or not gpus or not all(isinstance(g.vram_used_bytes, Known) for g in gpus):
        return None
    used = float(sum(g.vram_used_bytes.need() for g in gpus))
    if used > FAR_LESS * planned:
        return None
    return Found(
        because=f"{planned / GIB:.0f} GiB were planned for the GPU, so {split.words}; {used / GIB:.1f} GiB are in use",
        evidence=(
            cite(case, "runtime.size_vram_bytes", f"{used / GIB:.1f} GiB in use"),
            cite(case, f"machine.gpus.{case.machine.gpus.value_or(()).index(gpus[0])}.vram_used_bytes"),
        ),
        remedies=(Remedy(Knob.GPU_LAYERS.to(-1, "all layers, by hand"), None, "it may run out"),),
    )


def _by_hand(case: Case) -> Found | None:
    """Somebody set the number of layers by hand, or took another program, and all of it was on the GPU."""
    said, split = remarks_on(case, Topic.LAYERS_FIT_BY_HAND), seen_split(case)
    left_out = split or remarks_on(case, Topic.VRAM_FREE, Topic.GPU_UNUSED)
    if not said or not left_out or places_layers_itself(case) is False:
        return None
    because = f"by itself it leaves layers on the CPU{f' ({split.words})' if split else ''}, and they do fit"
    return Found(
        because=f"{because}: {said[0].text}",
        evidence=(*((cite(case, split.fact),) if split else ()), *cite_remarks(case, said)),
        remedies=(Remedy(Knob.GPU_LAYERS.to(None, "the number that was seen to fit"), None, "it may run out"),),
    )


def _free_now(case: Case) -> float:
    """What is free after the load: as read, else all but what is used."""
    gpus = gpus_used(case)
    if gpus and all(isinstance(g.vram_free_bytes, Known) for g in gpus):
        return float(sum(g.vram_free_bytes.need() for g in gpus))
    total = vram_total_bytes(case)
    if not gpus or total is None:
        raise missing("how much GPU memory is free after the load", CAUSE.ask)
    return total - sum(g.vram_used_bytes.need() for g in gpus)


def _layer_bytes(case: Case) -> float:
    """A layer with its share of the cache: by the runtime's own sum, else by the model."""
    runtime = case.runtime
    layers = runtime.layers.value_or(0) or case.model.layers.value_or(0)
    if isinstance(runtime.asked_bytes, Known) and layers:
        return runtime.asked_bytes.value / layers
    shape = read_shape(case)
    return shape.layer_bytes + shape.kv_bytes_per_token * runtime.context_length.need() / max(1, shape.layers)


def _by_words(case: Case) -> Found | Suspected | None:
    """Gigabytes that somebody saw free after the load, where the runtime's own sum was only just too large."""
    said = remarks_on(case, Topic.VRAM_FREE)
    split = seen_split(case)
    if not said or not split:
        return None
    free, available = max(amount_bytes(r.text) for r in said), if_known(available_vram_bytes, case)
    asked = float(case.runtime.asked_bytes.value_or(0))
    barely = bool(asked) and available is not None and 1 < asked / max(1.0, available) < BARELY
    if available is None or not barely or free < margin_bytes(case) + _layer_bytes(case):
        return Suspected(f"{split.words}, and {said[0].text}", "machine.gpus.0.vram_free_bytes", CAUSE.ask)
    return Found(
        because=f"{asked / GIB:.1f} GiB were reckoned with and {available / GIB:.1f} GiB were free, so {split.words}; "
        f"after the load {free / GIB:.1f} GiB are still free",
        evidence=(cite(case, "runtime.asked_bytes", f"{available / GIB:.1f} GiB free"), *cite_remarks(case, said)),
        remedies=(Remedy(Knob.GPU_LAYERS.to(None, "a few more layers than it chose"), None, "it may run out"),),
    )


CAUSE = Cause(
    title="The runtime's estimate of memory is too careful",
    phase="decode",
    needs=(
        ("runtime.gpu_layers", "runtime.vram_share", "runtime.size_vram_bytes", "account.remarks"),
        ("machine.gpus.0.vram_free_bytes", "machine.gpus.0.vram_used_bytes", "account.remarks"),
    ),
    check=check,
    on_gpu=True,
    ggml_only=True,
    explains=("weights_spill_to_ram", "context_larger_than_needed"),
    gpu_only=True,
    ask="once the model is loaded: {gpu_memory}",
)
