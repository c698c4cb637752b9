"""Part of the model does not fit into the GPU's memory and is computed by the CPU.

## Why it is slow
Every generated token reads every active weight once. A GPU reads its own memory ten to fifty times faster than a CPU
reads RAM, so a few layers on the CPU cost more than all the others on the GPU together. The layers are placed once,
when the model is loaded; they are not swapped while it runs.

## How to confirm
llama.cpp prints `offloaded N/M layers to GPU` with N below M (from build 9151 on only with `-lv 4`), and weights + KV
cache + compute buffer ask for more than the GPU had free.

## How to fix
Ask for fewer bytes, cheapest loss first: a context as long as you need, a KV cache of type q8_0, a smaller quant of
the same model, a smaller model. Or give it more: close what else holds GPU memory, a larger or second GPU.

## Safety
A shorter context cuts long conversations; a q8_0 cache and a smaller quant change the answers slightly. Where a layer
is computed does not change them beyond rounding.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.think.adapt.demand import Demand, read_demand
from unslow.think.adapt.placement import counted_layers, layers_left_on_host
from unslow.think.adapt.work import EVERYTHING, Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, cite
from unslow.think.physics.kv_cache import element_bytes

_FEWEST_BITS = 2.0


def check(case: Case) -> Found | Absent:
    """Compare what the model asks of the GPU with what was free there."""
    runtime = case.runtime
    if runtime.tensor_overrides.value_or([]):
        return Absent("tensors were placed on the CPU by a setting")
    left, layers = layers_left_on_host(case), counted_layers(case)
    if not left:
        return Absent(f"{layers.on_gpu}/{layers.total} layers are on the GPU")
    demand = read_demand(case)
    if demand.lacking <= 0:
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
        remedies=(*_smaller_cache(case, demand), _smaller_weights(case, demand)),
    )


def _smaller_cache(case: Case, demand: Demand) -> tuple[Remedy, ...]:
    """A cache of half the size, where it is not that small already."""
    if case.runtime.kv_type_k.value_or("f16") != "f16":
        return ()
    context = case.runtime.context_length.value_or(0) * element_bytes("q8_0") / element_bytes("f16")
    cure = Cure(vram_bytes=demand.available, context=context)
    return (Remedy(Knob.KV_CACHE_TYPE.to("q8_0", "halves the KV cache"), cure, "answers change slightly"),)


def _smaller_weights(case: Case, demand: Demand) -> Remedy:
    """A quant of which all fits, where that is not beyond any: below two bits a weight nothing useful is left."""
    weights, parameters = case.model.weights_bytes.need(), case.model.parameters.value_or(0)
    fitting = weights - demand.lacking
    if fitting <= 0 or (parameters and fitting * 8 / parameters < _FEWEST_BITS):
        return Remedy(Knob.QUANT.to(None, "a smaller model: no quant of this one fits into the GPU's memory"))
    why = f"a smaller quant: a file of at most {fitting / GIB:.1f} GiB fits as a whole (now {weights / GIB:.1f})"
    return Remedy(Knob.QUANT.to(None, why), None, "quality falls with the quant")


CAUSE = Cause(
    title="Weights spill into system memory",
    phase="decode",
    needs=("machine.gpus", ("runtime.gpu_layers", "machine.gpus.0.processes")),
    check=check,
    gpu_only=True,
)
