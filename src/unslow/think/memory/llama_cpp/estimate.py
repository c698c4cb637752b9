"""Compute buffers by a closed form, for a model whose layers nobody has described."""

from unslow.think.memory.llama_cpp.build import Kernels
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.places import Places
from unslow.think.memory.llama_cpp.settings import Settings

_F32 = 4


def estimated_compute(hyper: Hyper, settings: Settings, places: Places, kernels: Kernels) -> list[int]:
    """For each backend, the larger of a layer's tensors and of the logits; fitted to recorded allocations."""
    tokens, cells = settings.tokens, settings.slot_context
    heads = max(hyper.heads, default=0)
    inner = hyper.blueprint.count("feed_forward_length") or 4 * hyper.width
    used = max(hyper.experts_used, default=0)
    if hyper.experts:
        inner = used * hyper.blueprint.count("expert_feed_forward_length", inner)
    layer = 3 * inner + 2 * hyper.width + heads * hyper.key_length(0)
    mask = 2 * cells if kernels.flash_attention else (4 * heads + 4) * cells
    body = tokens * (_F32 * layer + mask)
    logits = settings.most_outputs * (hyper.vocabulary + hyper.width) * _F32
    inputs = tokens * (_F32 * hyper.width + 2 * cells)
    on_devices = [max(body, logits) if n in places.layers else 0 for n in range(places.host)]
    return [*on_devices, inputs if any(on_devices) else max(body, logits)]
