"""What each layer of a model does: as `config.json` lists it, or as its family's older dialects imply it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unslow.facts.model_bounds import MOST_LAYERS

FULL, SLIDING, CHUNKED, LINEAR, MAMBA = (
    "full_attention",
    "sliding_attention",
    "chunked_attention",
    "linear_attention",
    "mamba",
)

_Config = Mapping[str, Any]
_WORDS = {"attention": FULL, "global": FULL, "local": SLIDING}
_LETTERS = {"M": MAMBA, "*": FULL, "-": "mlp", "E": "moe", "L": SLIDING, "G": FULL}
_ALIKE = {"mamba": MAMBA, "mamba2": MAMBA, "falcon_mamba": MAMBA, "falcon_h1": "hybrid"}


def listed_layers(text: _Config) -> int:
    """The number of layers that a config lists one by one; 0 where it lists none."""
    lists = (text.get(key) for key in ("layer_types", "layers_block_type", "hybrid_override_pattern"))
    return next((len(words) for words in lists if words and _is_words(words)), 0)


def layer_types(text: _Config, layers: int) -> list[str]:
    """One word for each layer; none where the config does not tell the number of layers."""
    if not 0 < layers <= MOST_LAYERS:
        return []
    for dialect in (_listed, _lettered, _by_indices, _by_period, _by_flags, _chunked, _windowed):
        types = dialect(text, layers)
        if types:
            return types
    return [_ALIKE.get(str(text.get("model_type")), FULL)] * layers


def _listed(text: _Config, layers: int) -> list[str]:
    names = {**_WORDS, "attention": SLIDING} if _count(text, "attention_window_size") else _WORDS  # RecurrentGemma
    for key in ("layer_types", "layers_block_type", "block_types"):
        words = text.get(key)
        if isinstance(words, list) and words and _is_words(words):
            return _repeated([names.get(str(w), str(w)) for w in words], layers)
    return []


def _lettered(text: _Config, layers: int) -> list[str]:
    """Nemotron-H's `M-M*-`, EXAONE 4's `LLLG`."""
    for key in ("hybrid_override_pattern", "sliding_window_pattern"):
        letters = text.get(key)
        if isinstance(letters, str) and letters and not set(letters) - set(_LETTERS):
            return _repeated([_LETTERS[c] for c in letters], layers)
    return []


def _is_words(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value))


def _repeated(words: Sequence[str], layers: int) -> list[str]:
    return [words[n % len(words)] for n in range(layers)]


def _split(layers: int, chosen: Callable[[int], bool], yes: str, no: str) -> list[str]:
    return [yes if chosen(n) else no for n in range(layers)]


def _by_indices(text: _Config, layers: int) -> list[str]:
    for key, other in (("attn_layer_indices", MAMBA), ("full_attn_idxs", "conv")):
        indices = text.get(key)
        if isinstance(indices, list) and all(isinstance(i, int) for i in indices):
            return _split(layers, set(indices).__contains__, FULL, other)
    linear = text.get("linear_attn_config")  # Kimi Linear counts from one
    counted = linear.get("full_attn_layers") if isinstance(linear, Mapping) else None
    return _split(layers, lambda n: n + 1 in counted, FULL, LINEAR) if isinstance(counted, list) else []


def _by_period(text: _Config, layers: int) -> list[str]:
    """Of so many layers one attends: Jamba's with an offset, Qwen3-Next's the last."""
    period, offset = _count(text, "attn_layer_period"), _count(text, "attn_layer_offset")
    if period:
        return _split(layers, lambda n: n % period == offset, FULL, MAMBA)
    period = _count(text, "full_attention_interval")
    return _split(layers, lambda n: (n + 1) % period == 0, FULL, LINEAR) if period else []


def _by_flags(text: _Config, layers: int) -> list[str]:
    """A number for each layer: MiniMax marks full attention by 1, MiMo a window by 1."""
    for key, zero, one in (("attn_type_list", LINEAR, FULL), ("hybrid_layer_pattern", FULL, SLIDING)):
        flags = text.get(key)
        if isinstance(flags, list) and len(flags) >= layers:
            return _split(layers, [flag == 1 for flag in flags].__getitem__, one, zero)
    return []


def _chunked(text: _Config, layers: int) -> list[str]:
    """Llama 4: layers with rotary positions attend within a chunk."""
    if not _count(text, "attention_chunk_size"):
        return []
    flags = text.get("no_rope_layers")
    if isinstance(flags, list) and len(flags) >= layers:
        return _split(layers, lambda n: flags[n] == 0, FULL, CHUNKED)
    period = _count(text, "no_rope_layer_interval")
    return _split(layers, lambda n: (n + 1) % period == 0, FULL, CHUNKED) if period else []


def _windowed(text: _Config, layers: int) -> list[str]:
    """A window in all layers, in all but the last of each period, or from one layer on."""
    if not (_count(text, "sliding_window") or _count(text, "sliding_window_size")):
        return []
    if text.get("use_sliding_window") is False:
        return []
    period = _count(text, "sliding_window_pattern") or _count(text, "global_attn_every_n_layers")
    if period:
        return _split(layers, lambda n: (n + 1) % period == 0, FULL, SLIDING)
    first = _count(text, "max_window_layers")
    return _split(layers, lambda n: n < first, FULL, SLIDING)


def _count(text: _Config, key: str) -> int:
    value = text.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
