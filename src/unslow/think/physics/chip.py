"""A processor with its memory and its last cache, and the software on it."""

import re
from functools import cache
from typing import NamedTuple

from unslow.facts.model import Blueprint
from unslow.think.physics.terms import Number, at_most, larger, smaller

FIRST_YEAR, LAST_YEAR = 2023.0, 2027.0  # Builds between these were measured: outside, progress is not carried on
MIDDLE_YEAR = 2025.0
LAST_CACHE_GAIN = 1.4  # Copies that fit it against large ones on an H200: 5.9 to 4.25 TB/s (lab/data, runs `micro`)
LAST_CACHE_SHARE = 0.5  # Weights beyond this share push each other out: every token reads all of them, in one order


class Chip(NamedTuple):
    """A GPU, or a CPU with its memory."""

    bytes_per_s: Number  # What its memory delivers at most
    flops_per_s: Number  # Of its plain units, in 32 bits: those that multiply a matrix with one vector
    matrix_flops_per_s: Number = 0.0  # Of its matrix units, in 16 bits; those of the plain units where it has none
    watts: Number = 0.0  # What it may draw; 0 where unknown
    threads: Number = 0.0  # Of a CPU, those that compute
    cache_bytes: Number = 0.0  # Of a GPU's last cache


class SpeedSetting(NamedTuple):
    """The software: what was learned is looked up by these."""

    backend: str  # cuda, rocm, metal, vulkan, sycl or cpu
    family: str = ""  # The architecture of the chip
    device: str = ""  # The chip itself, by its name in the catalog: it may deviate from its family
    types: str = "k"  # The class of the weights' types: f16, q8, q4, k or iq
    runtime: str = ""  # Empty for llama.cpp and what is built on it
    fused: bool = True  # Whether attention is one kernel (flash attention)
    packed_cache: bool = False  # Whether keys and values are quantised, and unpacked for every token
    slow_host: bool = False  # Whether the computer around a GPU is a single-board one
    linked: bool = False  # Whether several GPUs have links of their own (NVLink on a board)
    beside_gpu: bool = False  # Whether a CPU computes what a GPU has no room for: then weights are not rearranged
    wide_vectors: bool = False
    """Whether a CPU multiplies vectors of 512 bits (AVX-512); servers with AMX were measured no faster for it."""
    tiles: bool = False  # Whether a CPU rearranges weights for AMX: then llama.cpp multiplies even one vector there
    server: bool = False
    """Whether it is a server of the kind that has them: under load its clock falls far below its label, and a guest's
    processors are often half a core each."""
    graphs: bool = True  # Whether launches are recorded and replayed (CUDA graphs)
    pieces: bool = False  # Whether attention is left out of them, and launched between two pieces


def progress(year: Number) -> Number:
    """The power of a backend's progress: years before the middle of the measurements."""
    return MIDDLE_YEAR - smaller(larger(year, FIRST_YEAR), LAST_YEAR)


def reading_bytes_per_s(working_set_bytes: Number, chip: Chip) -> Number:
    """How fast a working set of this size is read again and again."""
    fits = at_most(working_set_bytes, LAST_CACHE_SHARE * chip.cache_bytes)
    return chip.bytes_per_s * (1 + (LAST_CACHE_GAIN - 1) * fits)


HALF, BYTES, NIBBLES, SUPER_BLOCKS, TABLES = "f16", "q8", "q4", "k", "iq"
"""16 bits; 8 bits; 4 or 5 bits with a scale; super-blocks of 256; codes that are looked up in tables."""
CLASSES = {
    HALF: ("f32", "f16", "bf16"),
    BYTES: ("q8_0", "q8_1", "i8", "fp8"),
    NIBBLES: ("q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "mxfp4", "nvfp4"),
    SUPER_BLOCKS: ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k"),
    TABLES: ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs", "tq1_0", "tq2_0"),
}
"""The types of each class."""
_ALIKE = {"bf16": "f16", "f32": "f16", "q8_1": "q8_0", "i8": "q8_0", "fp8": "q8_0", "iq1_s": "iq1", "iq1_m": "iq1",
          "iq2_xxs": "iq2", "iq2_xs": "iq2", "iq2_s": "iq2", "iq3_xxs": "iq3", "iq3_s": "iq3", "tq1_0": "tq",
          "tq2_0": "tq", "nvfp4": "mxfp4"}  # fmt: skip
"""Types of one kind."""
_TYPE_NAMES = {
    HALF: re.compile(r"^(?:b?f(?:p)?(?:16|32)\b|bfloat16|float16|half)"),
    BYTES: re.compile(r"q8|int8|fp8|w8|8-?bit|mxfp8|8bpw"),
    NIBBLES: re.compile(r"iq4_nl"),
    TABLES: re.compile(r"iq[1-5]|tq\d|i2_s|bitnet"),
    SUPER_BLOCKS: re.compile(r"q[2-6]_k"),
}
"""What names of quants have of each class; the first that is found tells."""


def type_class_of_model(plan: Blueprint) -> str:
    """The class that most of a model's bytes are of."""
    sums: dict[str, int] = {}
    for tensor in plan.tensors:
        class_ = class_of_kind(kind_of(tensor.type))
        sums[class_] = sums.get(class_, 0) + tensor.bytes
    return max(sums, key=sums.__getitem__, default=NIBBLES)


def type_class(quant: str) -> str:
    """The class of a quant by its name: `UD-Q4_K_XL`, `MXFP4`, `awq-int4`; what is not known counts as 4 bits."""
    text = quant.lower()
    return next((class_ for class_, pattern in _TYPE_NAMES.items() if pattern.search(text)), NIBBLES)


@cache
def kind_of(type_: str) -> str:
    """The kind of a type, such as `Q4_K`."""
    name = type_.lower()
    return _ALIKE.get(name, name)


@cache
def class_of_kind(kind: str) -> str:
    """The class of a kind; what is not known counts as 4 bits with a scale."""
    if kind in CLASSES:
        return kind
    return next((c for c, types in CLASSES.items() if any(kind_of(t) == kind for t in types)), NIBBLES)
