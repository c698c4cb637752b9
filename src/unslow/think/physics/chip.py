"""A processor with its memory and its last cache, and the software on it."""

from typing import NamedTuple

from unslow.think.physics.terms import Number, at_most, larger, smaller

FIRST_YEAR, LAST_YEAR = 2023.0, 2027.0
"""Between these, builds were measured: before and after, progress is not carried on."""
MIDDLE_YEAR = 2025.0
LAST_CACHE_GAIN = 1.4
"""Copies that fit it against large ones on an H200: 5.9 against 4.25 TB/s (lab/data, runs `micro`)."""
LAST_CACHE_SHARE = 0.5
"""Weights that take more of it than this push each other out: every token reads all of them, in the same order."""


class Chip(NamedTuple):
    """A GPU, or a CPU with its memory."""

    bytes_per_s: Number  # What its memory delivers at most
    flops_per_s: Number  # Of its plain units, in 32 bits: those that multiply a matrix with one vector
    matrix_flops_per_s: Number = 0.0  # Of its matrix units, in 16 bits; those of the plain units where it has none
    watts: Number = 0.0  # What it may draw; 0 where nobody says
    threads: Number = 0.0  # Of a CPU, those that compute
    cache_bytes: Number = 0.0  # Of a GPU's last cache


class SpeedSetting(NamedTuple):
    """The software: what was learned is looked up by these."""

    backend: str  # cuda, rocm, metal, vulkan, sycl or cpu
    family: str = ""  # The architecture of the chip
    device: str = ""  # The chip itself, by its name in the catalogue: it may deviate from its family
    types: str = "k"  # The class of the weights' types: f16, q8, q4, k or iq
    runtime: str = ""  # Empty for llama.cpp and what is built on it
    fused: bool = True  # Whether attention is one kernel (flash attention)
    packed_cache: bool = False  # Whether keys and values are quantised, and unpacked for every token
    slow_host: bool = False  # Whether the computer around a GPU is a single-board one
    linked: bool = False  # Whether several GPUs have links of their own (NVLink on a board)
    beside_gpu: bool = False
    """Whether a CPU computes what a GPU had no room for: then weights are not rearranged for it."""
    wide_vectors: bool = False
    """Whether a CPU multiplies vectors of 512 bits (AVX-512); servers with AMX were measured no faster for it."""
    tiles: bool = False
    """Whether a CPU rearranges weights for its matrix units (AMX): then llama.cpp multiplies even one vector there."""
    server: bool = False
    """Whether it is a server of the kind that has them: under load its clock falls far below its label, and a guest's
    processors are often half a core each."""
    graphs: bool = True  # Whether launches are recorded and replayed (CUDA graphs)


def progress(year: Number) -> Number:
    """The power of a backend's progress: years before the middle of the measurements."""
    return MIDDLE_YEAR - smaller(larger(year, FIRST_YEAR), LAST_YEAR)


def reading_bytes_per_s(working_set_bytes: Number, chip: Chip) -> Number:
    """How fast a working set of this size is read again and again."""
    fits = at_most(working_set_bytes, LAST_CACHE_SHARE * chip.cache_bytes)
    return chip.bytes_per_s * (1 + (LAST_CACHE_GAIN - 1) * fits)
