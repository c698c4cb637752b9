"""The weights that each of vLLM's ranks holds, and what it keeps beside them for its kernels."""

from collections.abc import Sequence

from unslow.catalog.runtimes_memory import kernel
from unslow.catalog.weight_parts import Part, Role
from unslow.facts.hf_shape import HfShape
from unslow.facts.units import padded
from unslow.think.memory.vllm.settings import Settings, stage_layers

VOCABULARY_STEP = 64
"""The token table is padded to a multiple of this before it is divided (vocab_parallel_embedding.py)."""


def stage_weight_bytes(shape: HfShape, parts: Sequence[Part], settings: Settings) -> list[int]:
    """For each pipeline stage, the weights of one of its ranks."""
    stages = stage_layers(shape.layers, settings.pipeline_parallel)
    last = len(stages) - 1
    sums = [_tables(shape, settings, layers) for layers in stages]
    for part in parts:
        size = round(part.bytes * _share(shape, settings, part))
        for number, layers in enumerate(stages):
            if (
                part.layer in layers
                or (part.layer < 0 and not number)
                or (part.layer >= shape.layers and number == last)
            ):
                sums[number] += size
    if shape.tied and last:
        sums[last] += sum(round(p.bytes * _share(shape, settings, p)) for p in parts if p.role is Role.EMBEDDING)
    return sums


def _share(shape: HfShape, settings: Settings, part: Part) -> float:
    """The share of a part that one rank holds."""
    ranks = settings.tensor_parallel
    match part.role:
        case Role.EMBEDDING | Role.OUTPUT:
            return padded(shape.vocabulary, VOCABULARY_STEP) / max(1, shape.vocabulary) / ranks
        case Role.KEY_VALUE:
            heads = max(1, shape.kv_heads_of(part.layer))
            return max(1, heads // ranks) / heads
        case Role.EXPERTS:
            return _expert_padding(shape, settings) / ranks
        case Role.WHOLE:
            return 1.0
        case _:
            return 1 / ranks


def _expert_padding(shape: HfShape, settings: Settings) -> float:
    """How much larger the experts of one rank become where the kernel wants rounder lengths."""
    outer, inner = kernel(settings.packing).padding
    length = max(1, -(-shape.expert_width // settings.tensor_parallel))
    return padded(shape.width, outer) / max(1, shape.width) * padded(length, inner) / length


def _tables(shape: HfShape, settings: Settings, layers: range) -> int:
    """The tables of rotations, and a second copy of the matrices that lead out of latents."""
    rotated = shape.rope_length or shape.rotated or shape.key_length
    rotations = (shape.rotations or shape.positions) * rotated * settings.dtype_bytes
    latent = shape.kv_rank * shape.heads * (shape.key_length - shape.rope_length + shape.value_length)
    copies = latent * settings.dtype_bytes * len(layers) // settings.tensor_parallel if shape.kv_rank else 0
    return rotations + copies
