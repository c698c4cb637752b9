"""Bytes of keys and values."""

BYTES_PER_ELEMENT = {
    "f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32,
    "q4_0": 18 / 32, "iq4_nl": 18 / 32,
}  # fmt: skip
"""ggml block sizes: bytes per block over elements per block."""


def kv_bytes_per_token(
    layers: int, kv_heads: int, key_length: int, value_length: int, types: tuple[str, str] = ("f16", "f16")
) -> float:
    """What one token adds to the cache of a model in which every layer attends to everything."""
    key, value = (BYTES_PER_ELEMENT.get(t, 2.0) for t in types)
    return layers * kv_heads * (key_length * key + value_length * value)
