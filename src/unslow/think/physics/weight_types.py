"""The types of weights: the kind of each, and the class of kinds that unpacking and multiplying was learned of."""

import re
from functools import cache

from unslow.facts.model import Blueprint

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
