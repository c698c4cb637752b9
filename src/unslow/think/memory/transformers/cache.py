"""Transformers' caches: what each layer holds, growing or set aside, and what slices of longer tensors keep alive."""

from collections.abc import Iterable

from unslow.facts.hf_shape import HfShape, LayerKind
from unslow.think.memory.transformers.settings import LATENTS_SINCE, Settings

STATE_BYTES = 4
"""Recurrent states are kept in float32."""


def cache_bytes(shape: HfShape, settings: Settings, layers: Iterable[int]) -> int:
    """The cache of these layers when the last token has been made."""
    return sum(_layer(shape, settings, layer, _held_at_end(shape, settings, layer)) for layer in layers)


def prompt_cache_bytes(shape: HfShape, settings: Settings, layers: Iterable[int]) -> int:
    """The cache right after the prompt, when a growing window is a slice that keeps all of the prompt alive."""
    if settings.cache == "static":
        return cache_bytes(shape, settings, layers)
    return sum(_layer(shape, settings, layer, settings.prompt_tokens) for layer in layers)


def _held_at_end(shape: HfShape, settings: Settings, layer: int) -> int:
    """Tokens that a layer keeps at the end; the last one made is not put into a growing cache any more."""
    tokens = settings.tokens if settings.cache == "static" else max(settings.prompt_tokens, settings.tokens - 1)
    windowed = shape.kind(layer) in {LayerKind.WINDOW, LayerKind.CHUNK}
    return min(tokens, shape.window) if windowed else tokens


def _layer(shape: HfShape, settings: Settings, layer: int, tokens: int) -> int:
    """The keys and values of so many tokens, or the state that stands for them, for the whole batch."""
    if shape.kind(layer) is LayerKind.RECURRENT:
        past = shape.convolution * shape.convolution_length
        return settings.batch * (shape.state * STATE_BYTES + past * settings.dtype_bytes)
    if not shape.keeps(layer):
        return 0
    return settings.batch * tokens * token_numbers(shape, settings, layer) * settings.dtype_bytes


def token_numbers(shape: HfShape, settings: Settings, layer: int) -> int:
    """How many numbers a layer keeps of one token."""
    if shape.kv_rank and settings.version >= LATENTS_SINCE:
        return shape.kv_rank + shape.rope_length
    return shape.kv_heads_of(layer) * (shape.key_length_of(layer) + shape.value_length_of(layer))
