"""The runtime overestimated what the model needs and left layers on the CPU, although GPU memory is free.

## Why it is slow
The placement is decided before anything is allocated, from an estimate. An estimate that is too large keeps layers on
the CPU for good, although they would have fitted.

## How to confirm
Layers are on the CPU, no setting decides their number, and once the model is loaded far more GPU memory is free than
the margin and a layer take. Old versions of Ollama print the estimate as `memory.required.full` against
`memory.available`.

## What it is not
Memory that another program held at the load and has freed since: load the model again. Nor a number of layers that a
person set.

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
from unslow.facts.values import GIB, Known
from unslow.think.case.cure import EVERYTHING, Cure
from unslow.think.case.group import if_known, missing
from unslow.think.case.narrative import amount_bytes
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding

ROOM_FOR = 2  # Layers that must fit beside the margin: room for less than that is what rounding leaves
FAR_LESS = 0.6  # Of what was planned for the GPUs: with less in use, the plan was wrong
JUST_AS_FREE = 0.9  # Of what was free before the load: a model that is partly on the GPU takes more than the rest
BARELY = 1.25  # Where more than this times what was free is asked for, a careful estimate is not the reason
MAY_FAIL = "may run out of memory"
ALL_LAYERS = Knob.GPU_LAYERS.to(-1, "all layers, set by hand")
NO_LAYER_LEFT = Absent("the estimate left no layer on the CPU")


def refused_by_own_sum(case: CaseView) -> Found | None:
    """No layer is on the GPU, although by the runtime's own sum the whole model had room there."""
    runtime = case.runtime
    asked, free = runtime.memory.asked_bytes.get(), runtime.memory.available_bytes.get()
    layers, none_there = runtime.placement.layers.get(), runtime.placement.gpu_layers.get() == 0
    if case.engine.settings_unread or case.placement.is_deliberate or not none_there or not layers or layers < 2:  # noqa: PLR2004 (several)
        return None
    if asked is None or free is None or not 0 < asked <= free:
        return None
    sums = f"{asked / GIB:.1f} GiB were asked for and {free / GIB:.1f} GiB were free"
    because = f"no layer is on the GPU, although by the runtime's own sum {sums}"
    cited = case.cite("runtime.memory.asked_bytes", f"{free / GIB:.1f} GiB free")
    fixes = [Remedy(ALL_LAYERS, EVERYTHING, MAY_FAIL)]
    return finding(case, because, cited, "runtime.placement.gpu_layers", cure=EVERYTHING, fixes=fixes)


def no_split(case: CaseView) -> Absent | None:
    """The runtime accounts for the whole model, and none of it was left on the CPU."""
    placement = case.runtime.placement
    counted = isinstance(placement.gpu_layers, Known) and isinstance(placement.layers, Known)
    accounted = counted or isinstance(case.runtime.memory.vram_share, Known)
    by_hand = case.narrative.remarks_on(Topic.LAYERS_FIT_BY_HAND)
    return NO_LAYER_LEFT if accounted and case.placement.split is None and not by_hand else None


def other_reason(case: CaseView) -> Absent | None:
    """A setting decides the number of layers, or the memory that GPU and CPU share is short."""
    if case.placement.is_deliberate:
        return Absent("a setting decides the number of layers")
    if case.gpus.is_unified and case.machine.memory.pressure.get() not in (None, "normal"):
        return Absent("the memory that GPU and CPU share is short: the estimate leaves layers out for a reason")
    return None


def free_after_load(case: CaseView) -> Found | Absent:
    """GPU memory that is free once the model is loaded, against what a layer and the margin take."""
    if case.engine.settings_unread:
        case.ask_for("runtime.process.command", "{command_line}")
    split = case.placement.split
    if split is None and not case.placement.layers_on_host:
        return NO_LAYER_LEFT
    free, layer, margin = case.vram.need_free_now(CAUSE.ask), case.memory.layer_bytes, case.vram.margin_bytes
    total, before = case.vram.total_bytes, case.vram.available_bytes
    if free > JUST_AS_FREE * before:  # this was read before the load
        raise missing("how much GPU memory is free after the load", CAUSE.ask)
    if free < margin + ROOM_FOR * layer:
        sizes = f"a layer takes {layer / GIB:.1f} and the margin {margin / GIB:.1f}"
        return Absent(f"{free / GIB:.1f} GiB are free, {sizes}")
    if total is None:
        raise missing("how much memory the GPU has", "{gpu_memory}")
    if free - max(0.0, total - before) < margin + layer:  # other processes may only have freed it since
        return Absent(f"{free / GIB:.1f} GiB are free now, but were not free at load")
    left_out = split.words if split else "layers are on the CPU"
    because = f"{left_out}, yet {free / GIB:.1f} GiB of GPU memory are free after the load, and a layer takes "
    read = "vram_free_bytes" if isinstance(case.gpus.in_use[0].vram_free_bytes, Known) else "vram_used_bytes"
    cited = case.cite(f"machine.gpus.{case.gpus.places_in_use[0]}.{read}", f"{free / GIB:.1f} GiB free")
    cure = Cure(vram_bytes=before + margin)
    layers, now = case.runtime.placement.layers.get(), case.runtime.placement.gpu_layers.get()
    number = min(layers, now + int((free - margin) / layer)) if layers and now is not None else None
    more = Knob.GPU_LAYERS.to(number, "as many as fit beside the margin")
    return finding(
        case,
        f"{because}{layer / GIB:.1f} GiB",
        cited,
        [case.cite(split.fact)] if split else (),
        cure=cure,
        fixes=[Remedy(more, cure, MAY_FAIL)],
    )


def planned_for_gpu(case: CaseView) -> Found | None:
    """What the runtime planned for the GPUs, against what the driver shows in use there."""
    split, planned, gpus = case.placement.split, case.runtime.memory.size_vram_bytes.get(), case.gpus.in_use
    used = [gpu.vram_used_bytes.value for gpu in gpus if isinstance(gpu.vram_used_bytes, Known)]
    if case.engine.settings_unread or not split or not planned or not gpus or len(used) < len(gpus):
        return None
    if sum(used) > FAR_LESS * planned:
        return None
    in_use = f"{sum(used) / GIB:.1f} GiB"
    because = f"{planned / GIB:.0f} GiB were planned for the GPU, so {split.words}; {in_use} are in use"
    cited = case.cite("runtime.memory.size_vram_bytes", f"{in_use} in use")
    read = f"machine.gpus.{case.gpus.places_in_use[0]}.vram_used_bytes"
    return finding(case, because, cited, read, fixes=[Remedy(ALL_LAYERS, None, MAY_FAIL)])


def more_layers_tried(case: CaseView) -> Found | None:
    """A person set the number of layers by hand, or took another program, and all of them fitted."""
    said, split = case.narrative.remarks_on(Topic.LAYERS_FIT_BY_HAND), case.placement.split
    left_out = split or case.narrative.remarks_on(Topic.VRAM_FREE, Topic.GPU_UNUSED)
    if not said or not left_out or case.engine.places_layers_itself is False:
        return None
    because = f"the runtime leaves layers on the CPU{f' ({split.words})' if split else ''} that do fit: {said[0].text}"
    cited = [case.cite(split.fact)] if split else []
    fix = Remedy(Knob.GPU_LAYERS.to(None, "the number that was seen to fit"), None, MAY_FAIL)
    return finding(case, because, cited, case.narrative.cite_remarks(said), fixes=[fix])


def free_memory_told(case: CaseView) -> Found | Suspected | None:
    """Gigabytes that a person saw free after the load, where the runtime's own sum was only just too large."""
    said, split = case.narrative.remarks_on(Topic.VRAM_FREE), case.placement.split
    if not said or not split:
        return None
    free, before = max(amount_bytes(remark.text) for remark in said), if_known(lambda: case.vram.available_bytes)
    asked = case.runtime.memory.asked_bytes.get()
    barely = asked and before is not None and 1 < asked / max(1.0, before) < BARELY
    if not asked or before is None or not barely or free < case.vram.margin_bytes + case.memory.layer_bytes:
        return Suspected(f"{split.words}, and {said[0].text}", "machine.gpus.0.vram_free_bytes", CAUSE.ask)
    sums = f"{asked / GIB:.1f} GiB were estimated and {before / GIB:.1f} GiB were free"
    because = f"{sums}, so {split.words}; after the load {free / GIB:.1f} GiB are still free"
    cited = case.cite("runtime.memory.asked_bytes", f"{before / GIB:.1f} GiB free")
    fix = Remedy(Knob.GPU_LAYERS.to(None, "a few more layers than it chose"), None, MAY_FAIL)
    return finding(case, because, cited, case.narrative.cite_remarks(said), fixes=[fix])


CAUSE = Cause(
    title="The runtime overestimates the memory that it needs",
    phase="decode",
    needs=all_of(
        "runtime.placement.gpu_layers or runtime.memory.vram_share or runtime.memory.size_vram_bytes or "
        "account.remarks",
        "machine.gpus.0.vram_free_bytes or machine.gpus.0.vram_used_bytes or account.remarks",
    ),
    routes=(
        Route("log", refused_by_own_sum),
        Route("log", no_split),
        Route("counted", other_reason),
        Route("measured", free_after_load),
        Route("measured", planned_for_gpu),
        Route("told", more_layers_tried),
        Route("told", free_memory_told),
    ),
    on_gpu=True,
    ggml_only=True,
    explains=("weights_spill_to_ram", "context_larger_than_needed"),
    gpu_only=True,
    ask="once the model is loaded: {gpu_memory}",
)
