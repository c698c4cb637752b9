"""Over how many of its GPUs an engine cuts every layer.

No metric tells it. An engine fills the share of each GPU's memory that it was given with weights and cache; both are
cut alike, so what they take together by the memory of one GPU is the number of GPUs that a copy of the model lies on.
"""

from typing import Any

from unslow.facts.machine import Gpu
from unslow.facts.model import Model
from unslow.facts.runtime import IN_BATCHES
from unslow.facts.values import Fact, Known, estimated, not_found, not_supported
from unslow.fleet.snapshot.readings import SOURCE
from unslow.think.physics.kv_cache import kv_bytes_per_token

OFF = 0.25
"""Of a count: buffers and graphs take some of the memory, and types are taken from a name."""
_FILLED = 0.9
"""Of a GPU's memory: weights that take more than this do not fit one of them."""


def tensor_parallel(runtime: str, gpus: tuple[Gpu, ...], model: Model, facts: dict[str, Fact[Any]]) -> Fact[int]:
    """Worked out from what one copy of the model fills; unknown where nothing tells."""
    if runtime not in IN_BATCHES or not gpus:
        return not_found(f"{SOURCE} does not tell it")
    if len(gpus) == 1:
        return estimated(1, f"{SOURCE}: one GPU belongs to it")
    copies = _filled_gpus(gpus, model, facts)
    if copies is None:
        return _by_weights(gpus, model)
    for count in (len(gpus), 1):
        if abs(copies - count) <= OFF * count:
            return estimated(count, f"{SOURCE}: weights and cache fill the memory of {copies:.1f} GPUs")
    return not_supported(f"weights and cache fill the memory of {copies:.1f} GPUs, and {len(gpus)} belong to it")


def _filled_gpus(gpus: tuple[Gpu, ...], model: Model, facts: dict[str, Fact[Any]]) -> float | None:
    cells, memory = facts.get("kv_capacity_tokens"), _filled_bytes(gpus, facts.get("gpu_memory_fraction"))
    if not isinstance(cells, Known) or not memory:
        return None
    kind = facts.get("kv_type_k")
    of_type = str(kind.value) if isinstance(kind, Known) else "f16"
    each = kv_bytes_per_token(
        model.layers.value_or(0), model.kv_heads.value_or(0), model.key_length.value_or(0),
        model.value_length.value_or(0), (of_type, of_type),
    )  # fmt: skip
    weights = model.weights_bytes.value_or(0)
    if not weights or not each:
        return None
    return (weights + float(cells.value) * each) / memory


def _filled_bytes(gpus: tuple[Gpu, ...], given: Fact[Any] | None) -> float:
    """What the engine takes of one GPU: the share that it was given, else what is in use there."""
    if isinstance(given, Known):
        return float(given.value) * min(gpu.vram_total_bytes.value_or(0) for gpu in gpus)
    return float(min(gpu.vram_used_bytes.value_or(0) for gpu in gpus))


def _by_weights(gpus: tuple[Gpu, ...], model: Model) -> Fact[int]:
    memory, weights = min(gpu.vram_total_bytes.value_or(0) for gpu in gpus), model.weights_bytes.value_or(0)
    if memory and weights > _FILLED * memory:
        return estimated(len(gpus), f"{SOURCE}: its weights do not fit one of its {len(gpus)} GPUs")
    return not_supported(
        f"nothing tells whether its {len(gpus)} GPUs share every layer, or have a copy of the model each"
    )
