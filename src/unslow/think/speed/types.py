"""The class of types that a quant or a model is mostly made of: what is unpacked alike is learned together."""

import re

from unslow.facts.blueprint import Blueprint
from unslow.think.physics.kinds import BYTES, HALF, NIBBLES, SUPER_BLOCKS, TABLES, class_of_kind, kind_of

_HALVES = re.compile(r"b?f(?:p)?(?:16|32)\b|bfloat16|float16|half")
_BYTES = re.compile(r"q8|int8|fp8|w8|8-?bit|mxfp8|8bpw")
_SUPER_BLOCKS = re.compile(r"q[2-6]_k")
_TABLES = re.compile(r"iq[1-5]|tq\d|i2_s|bitnet")
_NOT_TABLES = re.compile(r"iq4_nl")


def class_of(quant: str) -> str:
    """The class of a quant by its name: `UD-Q4_K_XL`, `MXFP4`, `awq-int4`; what is not known counts as 4 bits."""
    text = quant.lower()
    if _HALVES.match(text):
        return HALF
    if _BYTES.search(text):
        return BYTES
    if _NOT_TABLES.search(text):
        return NIBBLES
    if _TABLES.search(text):
        return TABLES
    return SUPER_BLOCKS if _SUPER_BLOCKS.search(text) else NIBBLES


def class_of_model(plan: Blueprint) -> str:
    """The class that most of a model's bytes are of."""
    sums: dict[str, int] = {}
    for tensor in plan.tensors:
        class_ = class_of_kind(kind_of(tensor.type))
        sums[class_] = sums.get(class_, 0) + tensor.bytes
    return max(sums, key=sums.__getitem__, default=NIBBLES)
