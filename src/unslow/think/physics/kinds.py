"""Types of weights by what it takes to unpack them: kinds, and classes of kinds that are alike."""

from functools import cache

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
