"""Part of the model does not fit into the GPU's memory and is computed by the CPU.

## Why it is slow
Every generated token reads every active weight once. A GPU reads its own memory ten to fifty times faster than a CPU
reads RAM, so a few layers on the CPU cost more than all the others on the GPU together. The layers are placed once,
when the model is loaded.

Guides say that the runtime swaps layers to RAM and back while it runs, and that one core is then busy, but llama.cpp
computes the layers that have no room on the CPU, with all of its threads; and `ollama ps` does show it (there is no
`ollama ps -a`, and `--verbose` shows no layers). Guides also warn of nonsense in the answers: where a layer is
computed does not change them.

## How to confirm
llama.cpp prints `offloaded N/M layers to GPU` with N below M (from build 9151 on only with `-lv 4`), and weights + KV
cache + compute buffer ask for more than the GPU had free. `ollama ps` shows the same as `48%/52% CPU/GPU`.

## What it is not
A setting that keeps layers out beside free memory (`gpu_layers_set_too_low`), or experts that were sent to the CPU on
purpose.

## How to fix
Ask for fewer bytes, cheapest loss first, or give it more memory:
- llama.cpp: `-c 8192`, then `-ctk q8_0 -ctv q8_0`, then a smaller quant; a mixture of experts: `--n-cpu-moe N`
- Ollama: `num_ctx 8192`, `OLLAMA_KV_CACHE_TYPE=q8_0`, a smaller tag of the model
- LM Studio: a shorter context, quantised K and V caches, a smaller quant (`lms load KEY --estimate-only` reckons)
- Transformers: a 4-bit `quantization_config`, so that `hf_device_map` has neither `cpu` nor `disk`
- vLLM: it never spills by itself: without `--cpu-offload-gb`, with a quantised model or a lower `--max-model-len`
- any: close what else holds GPU memory; a larger or second GPU

## Safety
A shorter context cuts long conversations; a q8_0 cache and a smaller quant change the answers slightly.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known
from unslow.think.case.demand import is_mixture, must_have_room, read_demand
from unslow.think.case.gpus import has_no_gpu, is_unified, is_windows, vram_total_bytes
from unslow.think.case.narrative import is_report, remarks_on, tells_only_of_slowness
from unslow.think.case.overrides import sent_away
from unslow.think.case.placement import (
    computes_all_on_gpus,
    counted_layers,
    host_weights_bytes,
    layers_left_on_host,
    seen_split,
    set_on_purpose,
)
from unslow.think.case.runtime import runs_ggml
from unslow.think.case.vram import gpus_used, margin_bytes
from unslow.think.case.work import EVERYTHING, USABLE
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._facts import cite, cite_remarks
from unslow.think.causes._memory_remedies import memory_remedies
from unslow.think.report import Evidence

ROOMY = 2  # Times the margin that a fit keeps free: what rounding and layers of unequal size leave is less
_KEPT_BACK = re.compile(r"offloaded to the (?:cpu|disk)|dispatched on the cpu", re.IGNORECASE)
_ABOUT = {"gpu_layers", "layers", "runtime.gpu_layers", "runtime.layers"}


def check(case: Case) -> Found | Absent | Suspected:
    """Compare what the model asks of the GPU with what was free there; else take the runtime's own count."""
    if sent_away(case).of_layers:
        return Absent("parts of layers were placed on the CPU by a setting")
    found = first_to_decide(case, _by_fetches, _by_demand, _by_count, _by_word_of_the_runtime, _by_size)
    # who complains about prompts has seen more than the spill
    return found._replace(explains=()) if isinstance(found, Found) and is_report(case) else found


def _by_fetches(case: Case) -> Found | Absent | None:
    """An engine that computes on GPUs alone fetches for every token what it was told to keep in the host's memory."""
    if is_report(case) or not computes_all_on_gpus(case):
        return None
    away, weights, room = host_weights_bytes(case), case.model.weights_bytes, vram_total_bytes(case)
    if not away:
        return Absent(f"{case.runtime.name.value_or('this engine')} computes with weights on GPUs alone")
    if not isinstance(weights, Known) or room is None:
        return None
    if weights.value <= USABLE * room:
        return Absent("a setting keeps weights in the host's memory for which the GPUs have room")
    sizes = f"{weights.value / GIB:.1f} GiB of weights, {room / GIB:.1f} GiB of GPU memory"
    why = f"a smaller quant: a checkpoint of at most {USABLE * room / GIB:.1f} GiB fits, without the offload"
    told = isinstance(case.runtime.cpu_offload_bytes, Known)
    return Found(
        because=f"{away / GIB:.0f} GiB of weights for each GPU lie in the host's memory and cross the link "
        f"for every token, for want of room: {sizes}",
        evidence=(
            cite(case, "runtime.cpu_offload_bytes" if told else "runtime.buffers", "0 where all of it fits"),
            cite(case, "model.weights_bytes", f"{room / GIB:.1f} GiB of GPU memory"),
        ),
        cure=EVERYTHING,
        remedies=(Remedy(Knob.QUANT.to(None, why), EVERYTHING, "quality falls with the quant"),),
    )


def _by_demand(case: Case) -> Found | Absent:
    left, layers = layers_left_on_host(case), counted_layers(case)
    if not left:
        return Absent(f"{layers.on_gpu}/{layers.total} layers are on the GPU")
    demand = read_demand(case)
    # All of it fits by the runtime's own sum: beside the margin that a fit of its own keeps, else without
    runtime = case.runtime
    fits_itself = runtime.fit.value_or(default=False) or isinstance(runtime.fit_margin_bytes, Known)
    room = runtime.available_bytes.value_or(0) - (margin_bytes(case) if fits_itself else 0.0)
    had_room = 0 < runtime.asked_bytes.value_or(0) <= room
    if demand.lacking <= 0 and not had_room:
        must_have_room(case)
    if demand.lacking <= 0 or had_room:
        return Absent(f"there was room: {demand.asked / GIB:.1f} GiB asked, {demand.available / GIB:.1f} GiB free")
    return Found(
        because=f"{left} of {layers.total} layers run on the CPU, all or in part: the model asks for "
        f"{demand.asked / GIB:.1f} GiB and {demand.margin / GIB:.1f} GiB of margin, and the GPU had "
        f"{demand.available / GIB:.1f} GiB free",
        evidence=(
            cite(case, layers.fact, f"{layers.total} layers"),
            cite(case, "model.weights_bytes", f"{demand.available / GIB:.1f} GiB free on the GPU"),
        ),
        cure=EVERYTHING,
        remedies=memory_remedies(case),
    )


def _by_count(case: Case) -> Found | Absent | Suspected | None:
    """The runtime's own account of a model in two places, where no setting asked for that."""
    split = seen_split(case)
    if split is None:
        return Absent("all of the model is on the GPU") if case.runtime.vram_share.value_or(0) == 1 else None
    if set_on_purpose(case):
        return None
    doubts = remarks_on(case, Topic.VRAM_FREE, Topic.LAYERS_FIT_BY_HAND)
    if doubts:  # then it is no lack of room
        return Suspected(f"{split.words}, yet {doubts[0].text}", "machine.gpus.0.vram_free_bytes", "{gpu_memory}")
    # Far more is free after the load than the runtime keeps free: then it is no lack of room either
    free = [gpu.vram_free_bytes for gpu in gpus_used(case)]
    seen = [f.value for f in free if isinstance(f, Known)]
    roomy = bool(free) and len(seen) == len(free) and sum(seen) > ROOMY * margin_bytes(case)
    if not is_report(case) and roomy:
        return Suspected(f"{split.words}, yet the GPU has room left", "model.weights_bytes", "{model_size}")
    # Where a setting or a screen says that all layers are on the GPU, and the log does not
    contradictions = tuple(
        Evidence(fact=c.about, value=s.says, reference=None, origin="reported", source=s.source)
        for c in case.contradictions
        if c.about in _ABOUT
        for s in c.statements
    )
    return Found(
        because=f"{split.words}; the rest is computed by the CPU from RAM, and no setting asks for that",
        evidence=(cite(case, split.fact, "all of it"), *contradictions),
        cure=EVERYTHING,
        remedies=memory_remedies(case),
    )


def _by_word_of_the_runtime(case: Case) -> Found | None:
    """The runtime says that it kept weights back, as Accelerate does for what does not fit."""
    said = remarks_on(case, Topic.WEIGHTS_ON_HOST)
    warned = [line for line in case.runtime.warnings.value_or([]) if _KEPT_BACK.search(line)]
    if not (said or warned) or has_no_gpu(case):
        return None
    change = Knob.QUANT.to(None, "a quant or a model that fits on the GPU")
    because = f"part of the weights stays in the host's memory: {warned[0] if warned else said[0].text}"
    shown = (cite(case, "runtime.warnings"),) if warned else cite_remarks(case, said[:1])
    return Found(because, shown, EVERYTHING, (Remedy(change, None, "quality falls"),))


def _by_size(case: Case) -> Found | Suspected | None:
    """A dense model that is larger than all GPUs together, in a runtime that divides what does not fit."""
    vram, weights = vram_total_bytes(case), float(case.model.weights_bytes.value_or(0))
    # Where it is known how the model is divided, other ways decide
    divided = isinstance(case.runtime.gpu_layers, Known) or isinstance(case.runtime.vram_share, Known)
    divided = divided or set_on_purpose(case)
    known = vram and weights and runs_ggml(case) and not is_unified(case) and not divided
    if not known or vram is None or weights <= vram or is_mixture(case) or not tells_only_of_slowness(case):
        return None
    sizes = f"{weights / GIB:.0f} GiB of weights, {vram / GIB:.0f} GiB of GPU memory"
    if is_windows(case) and not is_report(case):  # its driver lends memory of the host, and layers count as on the GPU
        return Suspected(sizes, "where the weights lie", "{placement}")
    return Found(
        because=f"the model does not fit on the GPU, so the CPU computes the rest from RAM: {sizes}",
        evidence=(cite(case, "model.weights_bytes", f"{vram / GIB:.0f} GiB of GPU memory"),),
        cure=EVERYTHING,
        remedies=(Remedy(Knob.QUANT.to(None, "a smaller quant, or a smaller model"), None, "quality falls"),),
    )


CAUSE = Cause(
    title="Weights spill into system memory",
    phase="decode",
    needs=(
        (
            "runtime.gpu_layers",
            "runtime.vram_share",
            "runtime.size_vram_bytes",
            "machine.gpus.0.processes",
            "model.weights_bytes",
            "runtime.warnings",
            "account.remarks",
        ),
    ),
    check=check,
    on_gpu=True,
    explains=("prefill_pcie_bound",),
    gpu_only=True,
    ask="{placement}",
)
