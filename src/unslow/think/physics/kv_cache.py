"""Bytes of keys and values."""

from unslow.catalog.quants import quants

F16_BYTES = 2.0


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
