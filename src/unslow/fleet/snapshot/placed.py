"""How much of a model that llama.cpp runs is on GPUs, by the memory that is in use there.

No metric of it tells the layers. But weights that are more than all that is in use on its GPUs can't all be there; and
with more in use than the weights take, on a card that belongs to it alone, they are.
"""

from typing import Any

from unslow.facts.machine import Gpu
from unslow.facts.model import Model
from unslow.facts.runtime import IN_BATCHES
from unslow.facts.units import GIB
from unslow.facts.values import Fact, Known, estimated, not_found
from unslow.fleet.snapshot.readings import SOURCE

AT_WORK = 0.3
"""Of the time that an engine generates: its GPU works at least so much of it, whatever else it waits for."""
LACKING = 0.9
"""Of the weights: with less than this in use, some of them are elsewhere; sizes by a name are a few percent off."""


def placed(runtime: str, gpus: Fact[tuple[Gpu, ...]], model: Model, worked: float) -> dict[str, Fact[Any]]:
    """The share, and where that is all of it the layers too, the output counted as one more.

    `worked` is the part of the window in which it generated: GPUs that rested then belong to somebody else.
    """
    share, layers = _share_on_gpus(runtime, gpus, model), model.layers.value_or(0)
    if isinstance(share, Known) and _rested(gpus.value_or(()), worked):
        share = not_found("its GPUs had next to no work while it answered: the memory in use there may not be its own")
    if not isinstance(share, Known) or share.value < 1 or not layers:
        return {"vram_share": share}
    whole = estimated(layers + 1, share.source)
    return {"vram_share": share, "gpu_layers": whole, "layers": whole}


def _rested(gpus: tuple[Gpu, ...], worked: float) -> bool:
    busy = [gpu.busy.value for gpu in gpus if isinstance(gpu.busy, Known)]
    return bool(busy) and max(busy) < AT_WORK * worked


def _share_on_gpus(runtime: str, gpus: Fact[tuple[Gpu, ...]], model: Model) -> Fact[float]:
    """The share; unknown where what is in use may be anybody's."""
    weights = float(model.weights_bytes.value_or(0))
    if runtime in IN_BATCHES or not isinstance(gpus, Known) or not weights:
        return not_found(f"{SOURCE} does not tell where its weights lie")
    used = [gpu.vram_used_bytes for gpu in gpus.value]
    if not used or not all(isinstance(fact, Known) for fact in used):
        return not_found(f"{SOURCE} does not tell how much of its GPUs' memory is in use")
    held = sum(float(fact.value_or(0)) for fact in used)
    source = f"{SOURCE}: {held / GIB:.1f} GiB of its GPUs' memory in use, {weights / GIB:.1f} GiB of weights"
    if held < LACKING * weights:
        return estimated(held / weights, source)
    if held > weights:
        return estimated(1.0, source)
    return not_found(f"its weights are about as large as what is in use on its GPUs: {held / GIB:.1f} GiB")
