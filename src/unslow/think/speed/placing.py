"""Where nothing says what lies on the GPU: as much as its memory holds, by its bytes."""

from typing import Any

from unslow.facts.units import GIB
from unslow.think.speed.rows import Asked
from unslow.think.speed.totals import totals

USABLE = 0.97
"""Of a card's memory, after what its driver keeps."""
BESIDE_BYTES = GIB
"""What a runtime's own context and its compute buffers take on each GPU, about."""
BLOCK = 4096
"""Caches are made larger than what is in them: in steps of so many tokens here."""


def is_open(asked: Asked) -> bool:
    """Whether the placement may have to be chosen: a GPU with a memory of its own, and nothing said about layers."""
    all_on_gpu = asked.gpu_layers is None or asked.gpu_layers >= len(asked.load.layers)
    memory = asked.device.capacity_bytes if asked.device.kind == "gpu" and asked.backend != "cpu" else 0
    return bool(memory) and all_on_gpu and not asked.experts_on_cpu


def spills(asked: Asked) -> bool:
    """Whether the weights alone are larger than the memory; what was measured is taken to have fitted if it can."""
    return asked.load.file_bytes - asked.load.table_bytes > asked.device.capacity_bytes * asked.gpus


def block_of(depth: Any) -> Any:
    """The context that such a depth is in, of a number or of an array."""
    return BLOCK * (1 + depth // BLOCK)


def placed(asked: Asked) -> Asked:
    """The same with what fits on the GPUs, where not all of it does: experts stay behind first, then whole layers."""
    if not is_open(asked) or not spills(asked):
        return asked
    room = asked.gpus * (USABLE * asked.device.capacity_bytes - BESIDE_BYTES) - _cache_bytes(asked)
    experts = _experts_on_host(asked, room)
    return (
        asked._replace(gpu_layers=_layers(asked, room)) if experts is None else asked._replace(experts_on_cpu=experts)
    )


def _cache_bytes(asked: Asked) -> float:
    elements = float(totals(asked.load).cache_elements(block_of(asked.start)))
    return elements * asked.element_bytes * asked.conversations


def _experts_on_host(asked: Asked, room: float) -> int | None:
    """The experts of how many layers stay on the host so that the rest fits; None where that does not help."""
    left = room - (asked.load.file_bytes - asked.load.table_bytes)
    for n, layer in enumerate(asked.load.layers):
        if left >= 0:
            return n
        left += layer.expert_bytes
    return len(asked.load.layers) if left >= 0 else None


def _layers(asked: Asked, room: float) -> int:
    count = len(asked.load.layers)
    each = sum(layer.dense_bytes + layer.expert_bytes for layer in asked.load.layers) / max(1, count)
    return max(0, min(count - 1, int(room / max(1.0, each))))
