"""Where the weights and the keys and values of a model lie, and what a token therefore reads from where."""

from typing import NamedTuple

from unslow.facts.units import GIB, MIB

FIT_MARGIN_BYTES = GIB
"""llama.cpp's own fit leaves this much free on each device by default."""
COMPUTE_BUFFER_BYTES = 300 * MIB
"""A usual compute buffer, where the runtime did not say."""


class Shape(NamedTuple):
    """A model in the numbers that decide its speed."""

    layers: int
    layer_bytes: float
    output_bytes: float
    active_share: float
    kv_bytes_per_token: float
    width: float
    vocabulary: float


class Placement(NamedTuple):
    """How many repeating layers a GPU holds (a fraction where only experts moved), and whether it holds the output."""

    gpu_layers: float
    output_on_gpu: bool


class Reads(NamedTuple):
    """Bytes that one token reads."""

    device: float
    host: float


def reads_per_token(shape: Shape, placement: Placement, depth: float) -> Reads:
    """Active weights, and keys and values at this depth, by where they lie."""
    layer = shape.layer_bytes * shape.active_share + shape.kv_bytes_per_token * depth / max(1, shape.layers)
    host_layers = shape.layers - placement.gpu_layers
    output_device = shape.output_bytes if placement.output_on_gpu else 0.0
    return Reads(placement.gpu_layers * layer + output_device, host_layers * layer + shape.output_bytes - output_device)


def bytes_on_gpu(shape: Shape, context: float, compute_bytes: float) -> float:
    """What the whole model asks of the GPU at this context."""
    return shape.layers * shape.layer_bytes + shape.output_bytes + shape.kv_bytes_per_token * context + compute_bytes


def fitted(shape: Shape, vram_bytes: float, context: float, compute_bytes: float, margin_bytes: float) -> Placement:
    """As many layers as fit, the output first, as llama.cpp does it."""
    room = vram_bytes - margin_bytes - compute_bytes - shape.output_bytes
    if room < 0:
        return Placement(0, output_on_gpu=False)
    layer = shape.layer_bytes + shape.kv_bytes_per_token * context / max(1, shape.layers)
    return Placement(min(shape.layers, room // layer if layer else shape.layers), output_on_gpu=True)
