"""The model is too large for this GPU in every quant that is worth having.

## Why it is slow
Below about three bits a weight a model loses more than a smaller one would. Where even that much, with the context
that is needed, exceeds the GPU's memory, some of it will be computed by the CPU from RAM whatever is set.

Guides say that a 70B model at four bits runs on 24 GB, at 20 tokens per second and more, but its 42.5 GB do not fit,
and even on such a card as a whole 1008 / 42.5 GB allow 23.7: about half of it is on the CPU, which leaves three to
four. Guides also put IQ3_XXS at "half the memory, hardly any loss": it is two thirds, and the loss shows.

## How to confirm
Parameters x 3 bits + the KV cache is more than the GPUs have together: `unslow fit MODEL` shows it for each quant.

## What it is not
A model that fits after one change, such as a smaller quant or a shorter context: then that is what to do.

## How to fix
The same for every runtime; say `unslow fit` and `unslow choose` what you need:
- a smaller model: half of the parameters, twice the speed, and more than that once all of it is on the GPU
- a mixture of experts with a small active part: with its experts in RAM (llama.cpp `--n-cpu-moe`) it stays usable
- more GPU memory: a second GPU adds its memory (llama.cpp by layers, vLLM `--tensor-parallel-size 2`)

## Safety
Another model gives other answers.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB
from unslow.think.case.demand import kv_per_token, missing
from unslow.think.case.gpus import is_unified, vram_total_bytes
from unslow.think.case.placement import seen_split
from unslow.think.case.work import EVERYTHING
from unslow.think.causes._cause import Absent, Cause, Found, Remedy
from unslow.think.causes._facts import cite, cite_known, need
from unslow.think.physics.placement import COMPUTE_BUFFER_BYTES

FEWEST_BITS = 3.06  # IQ3_XXS: the smallest quant of llama.cpp that is commonly recommended
USUAL_BITS = 4.85  # Q4_K_M: what most people download
FOR_WEIGHTS = 0.8  # Of the GPU's memory: the rest holds a cache, the margin of the runtime and what a screen takes
SHORT_CONTEXT = 4096  # Tokens: what does not fit with so few fits with no useful number


def check(case: Case) -> Found | Absent:
    """Hold the smallest quant with a short context against all of the GPUs' memory."""
    parameters = need(case, "model.parameters")
    if case.model.experts.value_or(0) > 1:
        return Absent("the model is a mixture: its experts bear to lie in RAM")
    if is_unified(case):
        return Absent("GPU and host share one memory")
    vram = vram_total_bytes(case)
    if vram is None:
        raise missing("how much memory the GPU has", CAUSE.ask)
    context = case.wish.context_tokens.value_or(SHORT_CONTEXT)
    least = parameters * FEWEST_BITS / 8 + kv_per_token(case) * context + COMPUTE_BUFFER_BYTES
    sizes = f"{least / GIB:.1f} GiB at three bits a weight, {vram / GIB:.1f} GiB of GPU memory"
    if least <= vram:
        return Absent(f"a smaller quant fits: {sizes}")
    split = seen_split(case)
    if split is None and case.runtime.gpu_layers.value_or(None) != 0:
        need(case, "runtime.gpu_layers")
        need(case, "runtime.layers")
        return Absent("all of it is on the GPU")
    # What to look for instead: how large a model fits as a whole in the quant that most people take
    billions = (vram * FOR_WEIGHTS - COMPUTE_BUFFER_BYTES) / (USUAL_BITS / 8) / 1e9
    size = f" of at most about {billions:.0f} billion parameters" if billions >= 1 else ""
    smaller = f"a smaller model{size}, or a mixture of experts with a small active part"
    return Found(
        because=f"the model is too large for the GPU in any useful quant: {sizes}",
        evidence=(cite(case, "model.parameters", sizes), *cite_known(case, "runtime.gpu_layers")),
        cure=EVERYTHING,
        remedies=(Remedy(Knob.QUANT.to(None, smaller), None, "another model"),),
    )


CAUSE = Cause(
    title="The model is too large for this GPU",
    phase="decode",
    needs=("model.parameters",),
    check=check,
    fails_load=True,
    explains=("weights_spill_to_ram", "context_larger_than_needed", "other_process_holds_vram"),
    gpu_only=True,
    ask="{gpu_memory}, and {model_size}",
)
