"""The model is too large for this GPU in every quant worth using.

## Why it is slow
Below about three bits per weight a model loses more quality than a smaller one would. Where even that size, with the
context that is needed, exceeds the GPU's memory, the CPU computes some of the layers from RAM whatever the settings.

Guides say that a 70B model at four bits runs on 24 GB, at 20 tok/s and more, but its 42.5 GB do not fit, and even if
they did, 1008 / 42.5 GB would allow 23.7: about half of the model is on the CPU, which leaves three to four. Guides
also put IQ3_XXS at "half the memory, hardly any loss": it is two thirds, and the loss shows.

## How to confirm
Parameters x 3 bits + the KV cache exceed the memory of all GPUs together: `unslow fit MODEL` shows it for each quant.

## What it is not
A model that fits after one change, such as a smaller quant or a shorter context: then make that change.

## How to fix
The same for every runtime; tell `unslow fit` and `unslow choose` what you need:
- a smaller model: half the parameters, twice the speed, and more once all layers are on the GPU
- a mixture of experts with a small active part: with its experts in RAM (llama.cpp `--n-cpu-moe`) it stays usable
- more GPU memory: a second GPU adds its memory (llama.cpp by layers, vLLM `--tensor-parallel-size 2`)

## Safety
Another model gives other answers.
"""

from unslow.facts.knob import Knob
from unslow.facts.values import GIB
from unslow.think.case.cure import EVERYTHING
from unslow.think.case.group import missing
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, all_of, finding
from unslow.think.physics.placement import COMPUTE_BUFFER_BYTES

FEWEST_BITS = 3.06  # IQ3_XXS: the smallest quant of llama.cpp that is commonly recommended
USUAL_BITS = 4.85  # Q4_K_M: what most people download
FOR_WEIGHTS = 0.8  # Of the GPU's memory: the rest holds the cache, the runtime's margin and what a desktop takes
SHORT_CONTEXT = 4096  # Tokens, where no context is asked for: what does not fit with these fits at no useful length
SHOW = "{gpu_memory}, and {model_size}"


def mixture_of_experts(case: CaseView) -> Absent | None:
    """A mixture of experts stays usable with its experts in RAM."""
    experts = case.model.experts.get()
    return Absent("a mixture of experts can keep its experts in RAM") if experts is not None and experts > 1 else None


def unified_memory(case: CaseView) -> Absent | None:
    """A GPU that shares the host's memory has no envelope of its own."""
    return Absent("GPU and host share one memory") if case.gpus.is_unified else None


def smallest_quant(case: CaseView) -> Found | Absent:
    """The smallest useful quant with a short context against the memory of all GPUs."""
    parameters, vram, context = case.need("model.parameters"), case.vram.total_bytes, case.wish.context_tokens.get()
    if vram is None:
        raise missing("how much memory the GPU has", SHOW)
    cache = case.memory.kv_bytes_per_token * (SHORT_CONTEXT if context is None else context)
    least = parameters * FEWEST_BITS / 8 + cache + COMPUTE_BUFFER_BYTES
    sizes = f"{least / GIB:.1f} GiB at three bits per weight, {vram / GIB:.1f} GiB of VRAM"
    if least <= vram:
        return Absent(f"a smaller quant fits: {sizes}")
    if case.placement.split is None and case.runtime.placement.gpu_layers.get() != 0:
        case.need("runtime.placement.gpu_layers")
        case.need("runtime.placement.layers")
        return Absent("all layers are on the GPU")
    # What to look for instead: the largest model that fits in the usual quant
    billions = (vram * FOR_WEIGHTS - COMPUTE_BUFFER_BYTES) / (USUAL_BITS / 8) / 1e9
    size = f" of at most about {billions:.0f} billion parameters" if billions >= 1 else ""
    smaller = f"a smaller model{size}, or a mixture of experts with a small active part"
    return finding(
        case,
        f"the model is too large for the GPU in any useful quant: {sizes}",
        case.cite("model.parameters", sizes),
        case.cite_known("runtime.placement.gpu_layers"),
        cure=EVERYTHING,
        fixes=[Remedy(Knob.QUANT.to(None, smaller), None, "another model")],
    )


CAUSE = Cause(
    title="The model is too large for this GPU",
    phase="decode",
    needs=all_of("model.parameters"),
    routes=(Route("counted", mixture_of_experts), Route("counted", unified_memory), Route("counted", smallest_quant)),
    fails_load=True,
    explains=("weights_spill_to_ram", "context_larger_than_needed", "other_process_holds_vram"),
    gpu_only=True,
    ask=SHOW,
)
