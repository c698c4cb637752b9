"""Where weights, keys and values lie, what they take, and the largest number that still fits."""

from collections.abc import Callable
from typing import NamedTuple

from unslow.catalog.quants import quants
from unslow.facts.values import GIB, MIB

FIT_MARGIN_BYTES = GIB  # llama.cpp's own fit leaves this much free on each device by default
COMPUTE_BUFFER_BYTES = 300 * MIB  # a usual compute buffer, where the runtime did not say
F16_BYTES = 2.0


class Shape(NamedTuple):
    """A model in the numbers that decide its speed."""

    layers: int
    layer_bytes: float
    output_bytes: float
    kv_bytes_per_token: float
    width: float
    vocabulary: float
    expert_share: float = 0.0  # The part of a layer's bytes that is experts


class Placement(NamedTuple):
    """How many repeating layers a GPU holds (a fraction where only experts moved), and whether it holds the output."""

    gpu_layers: float
    output_on_gpu: bool
    expert_layers: float | None = None
    """Layers whose experts it holds, where those are fewer than the layers of which it holds the rest."""
    dense_layers: float | None = None
    """Layers of which it holds everything but the experts; as many as whole ones where nothing is said."""
    cache_on_gpu: bool = True  # Whether the keys and values of a layer lie beside its weights

    @property
    def attending(self) -> float:
        """Layers that the GPU computes, whoever has their experts."""
        return self.gpu_layers if self.dense_layers is None else self.dense_layers

    @property
    def with_experts(self) -> float:
        """Layers whose experts the GPU computes."""
        return self.gpu_layers if self.expert_layers is None else self.expert_layers


def without_experts(shape: Shape, layers: float, missing_bytes: float, *, output_on_gpu: bool) -> Placement:
    """So many layers on the GPU, of which so many bytes are not there: experts leave first, then whole layers."""
    experts = layers * shape.layer_bytes * shape.expert_share
    away = min(missing_bytes, experts) / experts if experts else 0.0
    rest = (missing_bytes - away * experts) / (shape.layer_bytes * (1 - shape.expert_share) or 1.0)
    dense, held = min(layers, max(0.0, layers - rest)), layers * (1 - away)
    by_bytes = dense * (1 - shape.expert_share) + held * shape.expert_share
    return Placement(by_bytes, output_on_gpu, min(held, dense), dense)


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


def element_bytes(kind: str) -> float:
    """What one key or value takes when stored as a ggml type; an unknown type counts as f16, the default."""
    quant = quants().get(kind.upper())
    return quant.block_bytes / quant.block_elements if quant else F16_BYTES


def kv_bytes_per_token(
    layers: int, kv_heads: int, key_length: int, value_length: int, types: tuple[str, str] = ("f16", "f16")
) -> float:
    """What one token adds to the cache of a model in which every layer attends to everything."""
    key, value = (element_bytes(kind) for kind in types)
    return layers * kv_heads * (key_length * key + value_length * value)


def largest_fitting(low: int, high: int, left: Callable[[int], float]) -> int | None:
    """The largest number from low to high at which nothing is lacking (`left` is not negative); None where none is.

    More never leaves more. Each guess is where a straight line through both ends crosses zero; where the last guess
    took less than half of the range away, the middle is tried, so that a crooked line costs little.
    """
    at_low = left(low)
    if high < low or at_low < 0:
        return None
    at_high = left(high)
    if at_high >= 0:
        return high
    halve = False
    while high - low > 1:
        width = high - low
        guess = low + width // 2 if halve else low + int(width * at_low / (at_low - at_high))
        guess = min(max(guess, low + 1), high - 1)
        at_guess = left(guess)
        if at_guess >= 0:
            low, at_low = guess, at_guess
        else:
            high, at_high = guess, at_guess
        halve = (high - low) * 2 > width
    return low
