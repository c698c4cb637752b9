"""Which tensors a model of a shape has, and of which type each one is in a mix."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from unslow.catalog.quants import FileType, Quant, mix, quants
from unslow.catalog.shapes import Shape
from unslow.look.engine.gguf_writer import TensorPlan
from unslow.look.engine.random_blocks import can_fill


class _Wanted(NamedTuple):
    name: str
    dimensions: tuple[int, ...]
    part: str = "main"
    """Of the mix: main, more_bits or output; f32 is in no mix."""


def tensors(shape: Shape, quant: str) -> Iterator[TensorPlan]:
    """The tensors in the order of the file; KeyError where the mix can't be made up."""
    file_type, main = mix(quant)
    if not file_type.output:
        raise KeyError(quant)
    for wanted in _model(shape):
        type_ = _fitting(_type_of(wanted.part, file_type, main), wanted.dimensions[0])
        row, *others = wanted.dimensions
        yield TensorPlan(wanted.name, wanted.dimensions, type_.ggml_type, type_.bytes_of(row) * math.prod(others))


def _type_of(part: str, file_type: FileType, main: Quant) -> Quant:
    names = {"f32": "F32", "output": file_type.output, "more_bits": file_type.more_bits}
    return quants()[names.get(part) or main.name]


def _fitting(quant: Quant, row: int) -> Quant:
    """The type, or the one that llama.cpp falls back to for rows of this length."""
    while row % quant.block_elements or not can_fill(quant):
        quant = quants()[quant.fallback or "F16"]
    return quant


def _model(shape: Shape) -> Iterator[_Wanted]:
    table = (shape.width, shape.vocabulary)
    yield _Wanted("token_embd.weight", table, "output" if shape.tied else "main")
    yield _Wanted("output_norm.weight", (shape.width,), "f32")
    if not shape.tied:
        yield _Wanted("output.weight", table, "output")
    for n in range(shape.layers):
        part = "more_bits" if _more_bits(n, shape.layers) else "main"
        layer = (*_attention(shape, part), *(_experts(shape, part) if shape.experts else _feed_forward(shape, part)))
        yield from (w._replace(name=f"blk.{n}.{w.name}.weight") for w in layer)


def _attention(shape: Shape, part: str) -> Iterator[_Wanted]:
    width, queries, keys = shape.width, shape.heads * shape.head_length, shape.kv_heads * shape.head_length
    yield _Wanted("attn_norm", (width,), "f32")
    yield _Wanted("attn_q", (width, queries))
    yield _Wanted("attn_k", (width, keys))
    yield _Wanted("attn_v", (width, keys), part)
    yield _Wanted("attn_output", (queries, width))
    if shape.head_norms:
        yield _Wanted("attn_q_norm", (shape.head_length,), "f32")
        yield _Wanted("attn_k_norm", (shape.head_length,), "f32")


def _feed_forward(shape: Shape, part: str) -> Iterator[_Wanted]:
    yield _Wanted("ffn_norm", (shape.width,), "f32")
    yield _Wanted("ffn_gate", (shape.width, shape.feed_forward))
    yield _Wanted("ffn_up", (shape.width, shape.feed_forward))
    yield _Wanted("ffn_down", (shape.feed_forward, shape.width), part)


def _experts(shape: Shape, part: str) -> Iterator[_Wanted]:
    yield _Wanted("ffn_norm", (shape.width,), "f32")
    yield _Wanted("ffn_gate_inp", (shape.width, shape.experts), "f32")
    yield _Wanted("ffn_gate_exps", (shape.width, shape.feed_forward, shape.experts))
    yield _Wanted("ffn_up_exps", (shape.width, shape.feed_forward, shape.experts))
    yield _Wanted("ffn_down_exps", (shape.feed_forward, shape.width, shape.experts), part)


def _more_bits(layer: int, layers: int) -> bool:
    """The layers to which Q4_K_M and Q5_K_M give more bits: both ends and each third between (llama-quant.cpp)."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2  # noqa: PLR2004 (the third)
