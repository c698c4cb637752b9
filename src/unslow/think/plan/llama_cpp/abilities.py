"""What a runtime lets its user set, of all that llama.cpp can do."""

from typing import NamedTuple

MICRO_BATCHES = (128, 256, 512, 1024, 2048, 4096)


class Abilities(NamedTuple):
    """All of it, where nothing else is said."""

    apart: bool = True
    """Tensors by name, or the experts of some layers."""
    partly: bool = True
    """Some of the matrices of a layer, and not only all of them."""
    cache_on_host: bool = True
    unmapped: bool = True
    """Whether it can be told to load a file into memory, and not to map it."""
    micro_batches: tuple[int, ...] = MICRO_BATCHES
    fuses: bool | None = None
    """Whether its CUDA keeps what fused kernels read (memory/llama_cpp/fused.py); None where the build is not known."""
    cache_types: tuple[str, ...] = ("F16", "Q8_0", "Q4_0")
    mixed_cache: bool = True
    """Whether keys may be of another type than values."""
    rotates: bool = False
    """Whether its build is known to rotate quantised keys and values, by which they lose less."""


EVERYTHING = Abilities()
OLLAMA = Abilities(apart=False, cache_on_host=False, mixed_cache=False)
"""It knows layers, a batch, and a type of cache for all models."""
