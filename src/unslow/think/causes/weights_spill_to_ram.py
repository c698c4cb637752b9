"""Part of the model does not fit into the GPU's memory and is computed by the CPU.

## Why it is slow
Every generated token reads every active weight once. A GPU reads its own memory ten to fifty times faster than a CPU
reads RAM, so a few layers on the CPU cost more than all the others on the GPU together. The layers are placed once,
when the model is loaded.

Guides say that the runtime swaps layers to RAM and back while it runs, and that one core is then busy, but llama.cpp
computes the layers that do not fit on the CPU, with all of its threads; and `ollama ps` does show it (there is no
`ollama ps -a`, and `--verbose` shows no layers). Guides also warn of nonsense in the answers: where a layer is
computed does not change them.

## How to confirm
llama.cpp prints `offloaded N/M layers to GPU` with N below M (from build 9151 on only with `-lv 4`), and weights + KV
cache + compute buffer need more than the GPU had free. `ollama ps` shows the same as `48%/52% CPU/GPU`.

## What it is not
A setting that keeps layers off a GPU with free memory (`gpu_layers_set_too_low`), or experts that were sent to the CPU
on purpose.

## How to fix
Use fewer bytes, smallest loss first, or add memory:
- llama.cpp: `-c 8192`, then `-ctk q8_0 -ctv q8_0`, then a smaller quant; a mixture of experts: `--n-cpu-moe N`
- Ollama: `num_ctx 8192`, `OLLAMA_KV_CACHE_TYPE=q8_0`, a smaller tag of the model
- LM Studio: a shorter context, quantized K and V caches, a smaller quant (`lms load KEY --estimate-only` estimates)
- Transformers: a 4-bit `quantization_config`, so that `hf_device_map` has neither `cpu` nor `disk`
- vLLM: it spills only with `--cpu-offload-gb`: drop it, and use a quantized model or a lower `--max-model-len`
- any: close what else holds GPU memory; a larger or second GPU

## Safety
A shorter context cuts long conversations; a q8_0 cache and a smaller quant change the answers slightly.
"""

import re

from unslow.facts.account import Remark, Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB, Known
from unslow.think.case.cure import EVERYTHING
from unslow.think.case.physics import USABLE
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.plan.free_memory import memory_remedies
from unslow.think.report import Evidence

ROOMY = 2  # Times the margin that a fit keeps free: rounding and layers of unequal size leave less
_KEPT_BACK = re.compile(r"offloaded to the (?:cpu|disk)|dispatched on the cpu", re.IGNORECASE)
_LAYER_COUNTS = ("gpu_layers", "layers", "runtime.placement.gpu_layers", "runtime.placement.layers")


def placed_by_setting(case: CaseView) -> Absent | None:
    """Whether an override sends parts of layers to the CPU."""
    return Absent("a setting puts parts of layers on the CPU") if case.placement.sent_to_cpu.of_layers else None


def offloaded_weights(case: CaseView) -> Found | Absent | None:
    """Weights that a GPU-only engine keeps in host memory and fetches for every token, against the VRAM."""
    if case.narrative.is_report or not case.placement.computes_all_on_gpus:
        return None
    away, weights, room = case.placement.host_weights_bytes, case.model.weights_bytes.get(), case.vram.total_bytes
    if not away:
        return Absent(f"{case.engine.label} keeps all weights on GPUs")
    if weights is None or room is None:
        return None
    if weights <= USABLE * room:
        return Absent("a setting keeps weights in host memory that fit on the GPUs")
    is_set = isinstance(case.runtime.placement.cpu_offload_bytes, Known)
    fact = "runtime.placement.cpu_offload_bytes" if is_set else "runtime.memory.buffers"
    why = f"a smaller quant: without the offload, a checkpoint of at most {USABLE * room / GIB:.1f} GiB fits"
    return _spills(
        case,
        f"{away / GIB:.0f} GiB of weights per GPU stay in host memory and cross the link for every token, for lack of "
        f"room: {weights / GIB:.1f} GiB of weights, {room / GIB:.1f} GiB of GPU memory",
        case.cite(fact, "0 when all weights fit"),
        case.cite("model.weights_bytes", f"{room / GIB:.1f} GiB of GPU memory"),
        fixes=(Remedy(Knob.QUANT.to(None, why), EVERYTHING, "quality falls with the quant"),),
    )


def demand_against_free_memory(case: CaseView) -> Found | Absent:
    """What the whole model needs, against what was free on the GPU before the load."""
    left, layers = case.placement.layers_on_host, case.placement.layers
    if not left:
        return Absent(f"{layers.on_gpu}/{layers.total} layers are on the GPU")
    demand = case.memory.demand()
    needs, free = f"{demand.asked / GIB:.1f} GiB", f"{demand.available / GIB:.1f} GiB free"
    # The runtime's own sum, against what it found free, beside the margin that its own fit keeps
    memory, placed = case.runtime.memory, case.runtime.placement
    keeps_margin = placed.fit.get() or isinstance(placed.fit_margin_bytes, Known)
    room = (memory.available_bytes.get() or 0) - (case.vram.margin_bytes if keeps_margin else 0.0)
    fits_by_own_sum = 0 < (memory.asked_bytes.get() or 0) <= room
    if demand.lacking <= 0 or fits_by_own_sum:
        if not fits_by_own_sum:
            case.memory.need_room()
        return Absent(f"there was room: {needs} needed, {free}")
    return _spills(
        case,
        f"{left} of {layers.total} layers run on the CPU, fully or in part: the model needs {needs} plus "
        f"{demand.margin / GIB:.1f} GiB of margin, and the GPU had {free}",
        case.cite(layers.fact, f"{layers.total} layers"),
        case.cite("model.weights_bytes", f"{free} on the GPU"),
        fixes=memory_remedies(case),
    )


def split_by_own_account(case: CaseView) -> Found | Absent | Suspected | None:
    """How much of the model the runtime itself says is on the GPU, where no setting asks for that."""
    split = case.placement.split
    if split is None:
        return Absent("the whole model is on the GPU") if case.runtime.memory.vram_share.get() == 1 else None
    if case.placement.is_deliberate:
        return None
    doubts = case.narrative.remarks_on(Topic.VRAM_FREE, Topic.LAYERS_FIT_BY_HAND)
    if doubts:
        return Suspected(f"{split.words}, yet {doubts[0].text}", "machine.gpus.0.vram_free_bytes", "{gpu_memory}")
    # Far more free after the load than the runtime's margin is not a lack of room either
    free = [f.value for gpu in case.gpus.in_use if isinstance(f := gpu.vram_free_bytes, Known)]
    is_roomy = 0 < len(free) == len(case.gpus.in_use) and sum(free) > ROOMY * case.vram.margin_bytes
    if not case.narrative.is_report and is_roomy:
        return Suspected(f"{split.words}, yet the GPU has free memory", "model.weights_bytes", "{model_size}")
    contradictions = [
        Evidence(fact=about.about, value=said.says, reference=None, origin="reported", source=said.source)
        for about in case.contradictions
        if about.about in _LAYER_COUNTS
        for said in about.statements
    ]
    because = f"{split.words}; the CPU computes the rest from RAM, and no setting asks for that"
    shown_by = case.cite(split.fact, "the whole model"), *contradictions
    return _spills(case, because, *shown_by, fixes=memory_remedies(case))


def said_by_runtime(case: CaseView) -> Found | None:
    """A line in which the runtime says that it kept weights back, as Accelerate does for what does not fit."""
    said = case.narrative.remarks_on(Topic.WEIGHTS_ON_HOST)
    warned = [line for line in case.engine.warnings if _KEPT_BACK.search(line)]
    if not (said or warned) or case.gpus.has_none:
        return None
    return _spills(
        case,
        f"part of the weights stays in host memory: {warned[0] if warned else said[0].text}",
        "runtime.history.warnings" if warned else said[0],
        fixes=(Remedy(Knob.QUANT.to(None, "a quant or a model that fits on the GPU"), None, "quality falls"),),
    )


def weights_against_vram(case: CaseView) -> Found | Suspected | None:
    """A dense model larger than all GPUs together, in a runtime that divides what does not fit."""
    vram, weights, runtime = case.vram.total_bytes, case.memory.weights_bytes, case.runtime
    is_counted = isinstance(runtime.placement.gpu_layers, Known) or isinstance(runtime.memory.vram_share, Known)
    if is_counted or case.placement.is_deliberate or not case.engine.runs_ggml or case.gpus.is_unified:
        return None
    if not vram or weights <= vram or case.memory.is_mixture or not case.narrative.tells_only_of_slowness:
        return None
    sizes = f"{weights / GIB:.0f} GiB of weights, {vram / GIB:.0f} GiB of GPU memory"
    if case.system.is_windows and not case.narrative.is_report:  # its driver lends memory that counts as the GPU's
        return Suspected(sizes, "where the weights are", "{placement}")
    return _spills(
        case,
        f"the model does not fit on the GPU, so the CPU computes the rest from RAM: {sizes}",
        case.cite("model.weights_bytes", f"{vram / GIB:.0f} GiB of GPU memory"),
        fixes=(Remedy(Knob.QUANT.to(None, "a smaller quant, or a smaller model"), None, "quality falls"),),
    )


def _spills(case: CaseView, because: str, *shown: str | Evidence | Remark, fixes: tuple[Remedy, ...]) -> Found:
    """In a report a spill explains nothing else: a complaint about prefill is about more than the spill."""
    explains = () if case.narrative.is_report else None
    return finding(case, because, *shown, cure=EVERYTHING, fixes=fixes, explains=explains)


CAUSE = Cause(
    title="Weights spill into system memory",
    phase="decode",
    needs=all_of(
        "runtime.placement.gpu_layers or runtime.memory.vram_share or runtime.memory.size_vram_bytes or "
        "machine.gpus.0.processes or model.weights_bytes or runtime.history.warnings or account.remarks"
    ),
    routes=(
        Route("counted", placed_by_setting),
        Route("counted", offloaded_weights),
        Route("counted", demand_against_free_memory),
        Route("log", split_by_own_account),
        Route("log", said_by_runtime),
        Route("counted", weights_against_vram),
    ),
    on_gpu=True,
    explains=("prefill_pcie_bound",),
    gpu_only=True,
    ask="{placement}",
)
