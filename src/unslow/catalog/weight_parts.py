"""The weights of a model as parts: how large each is, which layer it belongs to, and how runtimes may divide it."""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from unslow.catalog.packings import Scheme, packed_bytes
from unslow.catalog.scheme_words import find_scheme
from unslow.facts.blueprint import Tensor
from unslow.facts.hf_shape import HfShape, LayerKind


class Role(StrEnum):
    """What a part is for; tensor parallelism divides by it."""

    EMBEDDING = "embedding"
    """The token table."""
    OUTPUT = "output"
    QUERY = "query"
    """The query and output matrices of attention: divided by heads."""
    KEY_VALUE = "key_value"
    """Divided by heads of keys and values, and kept several times where these are fewer than the devices."""
    FEED_FORWARD = "feed_forward"
    EXPERTS = "experts"
    RECURRENT = "recurrent"
    WHOLE = "whole"
    """Norms, routers, downward matrices of latents: on every device as they are."""
    OTHER = "other"
    """What lies beside the decoder, such as a vision tower."""


class Part(NamedTuple):
    """Some weights of one role in one layer; -1 is before the first layer, `layers` after the last."""

    layer: int
    role: Role
    bytes: int


class Storage(NamedTuple):
    """How the weights are stored, in bytes a weight with its scales."""

    linear: float
    """Of experts and of the feed-forward."""
    attention: float
    plain: float = 2.0
    """Of what is not quantised: tables, norms, routers."""
    packing: str = ""
    """The name of the packing; empty where there is none."""


def plainly(dtype_bytes: int) -> Storage:
    """Every weight in one type."""
    return Storage(dtype_bytes, dtype_bytes, dtype_bytes)


def packed(scheme: Scheme, plain_bytes: int = 2) -> Storage:
    """As a packing stores large matrices."""
    linear = packed_bytes(scheme, _LARGE, _LARGE) / _LARGE**2
    attention = plain_bytes if "attention" in scheme.packing.kept else linear
    return Storage(linear, attention, plain_bytes, scheme.packing.name)


_LARGE = 4096
_PLAIN_BYTES = {"bf16": 2, "bfloat16": 2, "f16": 2, "fp16": 2, "float16": 2, "f32": 4, "fp32": 4, "float32": 4}


def stored_as(quant: str) -> Storage:
    """As the format of that name stores weights; UserError where there is none."""
    plain = _PLAIN_BYTES.get(quant.lower())
    return plainly(plain) if plain else packed(find_scheme(quant))


def parts_of_shape(shape: HfShape, storage: Storage) -> list[Part]:
    """The parts of a model that is known by its numbers alone."""
    table = round(shape.vocabulary * shape.width * storage.plain)
    parts = [Part(-1, Role.EMBEDDING, table)]
    for layer in range(shape.layers):
        parts += (Part(layer, role, size) for role, size in _layer(shape, storage, layer) if size)
    parts.append(Part(shape.layers, Role.WHOLE, round(shape.width * storage.plain)))
    if not shape.tied:
        parts.append(Part(shape.layers, Role.OUTPUT, table))
    if shape.other_parameters:
        parts.append(Part(-1, Role.OTHER, round(shape.other_parameters * storage.plain)))
    return parts


def _layer(shape: HfShape, storage: Storage, layer: int) -> Iterator[tuple[Role, int]]:
    """The parts of one layer, mixer first."""
    yield Role.WHOLE, round(shape.norms * shape.width * storage.plain)
    if shape.kind(layer) is LayerKind.RECURRENT:
        yield Role.RECURRENT, round(shape.recurrent_parameters * storage.linear)
    elif shape.kind(layer) is not LayerKind.BARE:
        yield from _attention(shape, storage, layer)
    yield from _feed_forward(shape, storage, layer)


def _attention(shape: HfShape, storage: Storage, layer: int) -> Iterator[tuple[Role, int]]:
    """Queries with the output, keys with values; with a latent, the matrices that lead into and out of it."""
    weight = storage.attention
    queries = shape.heads * shape.key_length_of(layer)
    outputs = shape.heads * shape.value_length_of(layer)
    if shape.kv_rank:
        out_of = shape.kv_rank * shape.heads * (shape.key_length - shape.rope_length + shape.value_length)
        into = shape.width * (shape.kv_rank + shape.rope_length + shape.query_rank)
        yield Role.QUERY, round(((shape.query_rank or shape.width) * queries + outputs * shape.width + out_of) * weight)
        yield Role.WHOLE, round(into * weight + (shape.kv_rank + shape.query_rank) * storage.plain)
        return
    keys = shape.kv_heads_of(layer) * shape.key_length_of(layer)
    values = shape.kv_heads_of(layer) * shape.value_length_of(layer)
    bias = storage.plain if shape.attention_bias else 0.0
    projected = queries * (2 if shape.attention_gate else 1)
    yield Role.QUERY, round((projected + outputs) * shape.width * weight + queries * bias)
    yield Role.KEY_VALUE, round((keys + values) * shape.width * weight + (keys + values) * bias)
    if shape.head_norms:
        yield Role.WHOLE, round(2 * shape.key_length_of(layer) * storage.plain)


def _feed_forward(shape: HfShape, storage: Storage, layer: int) -> Iterator[tuple[Role, int]]:
    """The dense matrices, or the experts with their router."""
    matrices = 3 if shape.gated else 2
    if not shape.has_experts(layer):
        yield Role.FEED_FORWARD, round(matrices * shape.width * shape.feed_forward * storage.linear)
        return
    bias = (matrices - 1) * shape.expert_width + shape.width if shape.expert_bias else 0
    expert = matrices * shape.width * shape.expert_width * storage.linear + bias * storage.plain
    yield Role.EXPERTS, round(shape.experts * expert)
    yield Role.FEED_FORWARD, round(matrices * shape.width * shape.shared_width * storage.linear)
    yield Role.WHOLE, round(shape.experts * shape.width * storage.plain)


_NUMBER = re.compile(r"(?:^|\.)(?:layers|h|blocks|blk)\.(\d+)\.")
_ROLES = tuple(
    (re.compile(pattern), role)
    for pattern, role in (
        (r"(^|\.)(vision|visual|audio|multi_modal|mm_|embed_vision)", Role.OTHER),
        (r"lm_head|^output\.weight|embed_out", Role.OUTPUT),
        (r"embed_tokens|wte|word_embeddings|tok_embeddings|^token_embd\.", Role.EMBEDDING),
        (r"norm|router|\.gate\.weight|ffn_gate_inp|kv_a_proj|q_a_proj|attn_kv_a|attn_q_a", Role.WHOLE),
        (r"experts\.|_exps\b|_exps\.", Role.EXPERTS),
        (r"linear_attn|mamba|mixer|ssm_|conv1d", Role.RECURRENT),
        (r"\.(k_proj|v_proj|attn_k|attn_v)\b", Role.KEY_VALUE),
        (r"attn|attention", Role.QUERY),
        (r"mlp|feed_forward|ffn", Role.FEED_FORWARD),
    )
)
"""The first that a tensor's name matches; Hugging Face's names and GGUF's."""


def parts_of_tensors(tensors: Sequence[Tensor], layers: int) -> list[Part]:
    """The parts of a model whose tensors are known by name and size."""
    return [Part(*_place(tensor.name, layers), tensor.bytes) for tensor in tensors]


def _place(name: str, layers: int) -> tuple[int, Role]:
    """The layer and the role of a tensor; what no pattern knows is taken to be whole on every device."""
    role = next((role for pattern, role in _ROLES if pattern.search(name)), Role.WHOLE)
    number = _NUMBER.search(name)
    if role in {Role.EMBEDDING, Role.OTHER}:
        return -1, role
    if role is Role.OUTPUT or number is None:
        return layers, role
    return min(int(number[1]), layers), role  # beyond the last: layers that predict further tokens, of other towers


def total_bytes(parts: Sequence[Part]) -> int:
    """All weights together."""
    return sum(part.bytes for part in parts)
