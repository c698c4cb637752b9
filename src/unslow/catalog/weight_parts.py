"""The weights of a model as parts: how each scheme packs them, and how runtimes may divide them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from unslow.catalog import entries
from unslow.facts.errors import UserError
from unslow.facts.model import HfShape, LayerKind, Tensor
from unslow.facts.values import pad_to

Module: TypeAlias = Literal["embeddings", "output", "norms", "routers", "attention"]
_GROUPS_IN_A_GROUP = 256  # bitsandbytes' nested blocks
_BITS = re.compile(r"(?<!\d)(\d{1,2}(?:\.\d{1,4})?)[ _-]?(?:bits?|bpw)\b")
_INTEGER = re.compile(r"(?<![a-z])int[ _-]?(\d{1,2})\b")
_GROUP = re.compile(r"(?<![a-z\d])(?:g|gs|group[ _-]?(?:size)?)[ _-]?(\d{1,5})\b|(?<![a-z\d])(\d{1,5})g\b")
_LARGE = 4096
_PLAIN_BYTES = {"bf16": 2, "bfloat16": 2, "f16": 2, "fp16": 2, "float16": 2, "f32": 4, "fp32": 4, "float32": 4}
_NUMBER = re.compile(r"(?:^|\.)(?:layers|h|blocks|blk)\.(\d+)\.")


class Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the arrays that a matrix becomes."""

    name: str
    per: Literal["weight", "group", "256 groups", "tile", "row", "column", "tensor"]
    bits: int = 0  # Of each number; those of the scheme where 0
    count: int = 1  # Numbers for each `per`
    packed_along: Literal["", "rows", "columns"] = ""
    """The direction in which numbers share a word; the last word of each line may be part empty."""
    word_bits: int = 8


class Packing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scheme of quantisation with its choices."""

    name: str
    source: str
    default_bits: float
    arrays: tuple[Array, ...]
    bits: tuple[int, ...] = ()
    bits_between: tuple[float, float] = (0, 0)  # Where any number will do, because each matrix has its own
    stored_bits: dict[int, float] = {}  # What numbers of so many bits take, where they do not fill a word
    groups: tuple[int, ...] = ()  # How many weights may share a scale; -1 is a whole row
    default_group: int = -1
    groups_across_rows: bool = False
    tile: int = 1
    rows_multiple: int = 1
    columns_multiple: int = 1
    kept: tuple[Module, ...] = ()  # What stays in 16 bits by default
    at_bits: dict[Module, float] = {}  # What has its own number of bits by default
    aliases: tuple[str, ...] = ()


class Scheme(NamedTuple):
    """A packing with its choices made."""

    packing: Packing
    bits: float
    group: int


class Role(StrEnum):
    """What a part is for; tensor parallelism divides by it."""

    EMBEDDING = "embedding"  # The token table
    OUTPUT = "output"
    QUERY = "query"  # The query and output matrices of attention: divided by heads
    KEY_VALUE = "key_value"
    """Divided by heads of keys and values, and kept several times where these are fewer than the devices."""
    FEED_FORWARD = "feed_forward"
    EXPERTS = "experts"
    RECURRENT = "recurrent"
    WHOLE = "whole"  # Norms, routers, downward matrices of latents: on every device as they are
    OTHER = "other"  # Parts outside the decoder, such as a vision tower


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


class Part(NamedTuple):
    """Some weights of one role in one layer; -1 is before the first layer, `layers` after the last."""

    layer: int
    role: Role
    bytes: int


class Storage(NamedTuple):
    """How the weights are stored, in bytes a weight with its scales."""

    linear: float  # Of experts and of the feed-forward
    attention: float
    plain: float = 2.0  # Of what is not quantised: tables, norms, routers
    packing: str = ""  # The name of the packing; empty where there is none


def parts_of_shape(shape: HfShape, storage: Storage) -> list[Part]:
    """The parts of a model that is known by its numbers alone."""
    table = round(shape.vocabulary * shape.width * storage.plain)
    parts = [Part(-1, Role.EMBEDDING, table)]
    for layer in range(shape.layers):
        sizes = [(Role.WHOLE, round(shape.norms * shape.width * storage.plain))]
        if shape.kind(layer) is LayerKind.RECURRENT:
            sizes.append((Role.RECURRENT, round(shape.recurrent_parameters * storage.linear)))
        elif shape.kind(layer) is not LayerKind.BARE:
            sizes += _attention(shape, storage, layer)
        sizes += _feed_forward(shape, storage, layer)
        parts += (Part(layer, role, size) for role, size in sizes if size)
    parts.append(Part(shape.layers, Role.WHOLE, round(shape.width * storage.plain)))
    if not shape.tied:
        parts.append(Part(shape.layers, Role.OUTPUT, table))
    if shape.other_parameters:
        parts.append(Part(-1, Role.OTHER, round(shape.other_parameters * storage.plain)))
    return parts


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
    matrices = 3 if shape.gated else 2
    if not shape.has_experts(layer):
        yield Role.FEED_FORWARD, round(matrices * shape.width * shape.feed_forward * storage.linear)
        return
    bias = (matrices - 1) * shape.expert_width + shape.width if shape.expert_bias else 0
    expert = matrices * shape.width * shape.expert_width * storage.linear + bias * storage.plain
    yield Role.EXPERTS, round(shape.experts * expert)
    yield Role.FEED_FORWARD, round(matrices * shape.width * shape.shared_width * storage.linear)
    yield Role.WHOLE, round(shape.experts * shape.width * storage.plain)


def parts_of_tensors(tensors: Sequence[Tensor], layers: int) -> list[Part]:
    """The parts of a model whose tensors are known by name; one that no pattern knows is whole on every device."""
    parts = []
    for tensor in tensors:
        role = next((role for pattern, role in _ROLES if pattern.search(tensor.name)), Role.WHOLE)
        number = _NUMBER.search(tensor.name)
        layer = layers
        if role in {Role.EMBEDDING, Role.OTHER}:
            layer = -1
        elif role is not Role.OUTPUT and number:
            layer = min(int(number[1]), layers)  # beyond the last: layers that predict further tokens, of other towers
        parts.append(Part(layer, role, tensor.bytes))
    return parts


def total_bytes(parts: Sequence[Part]) -> int:
    """All weights together."""
    return sum(part.bytes for part in parts)


def storage_of_quant(quant: str) -> Storage:
    """As the format of that name stores weights; UserError where there is none."""
    plain = _PLAIN_BYTES.get(quant.lower())
    return plain_storage(plain) if plain else packed_storage(find_scheme(quant))


def plain_storage(dtype_bytes: int) -> Storage:
    """Every weight in one type."""
    return Storage(dtype_bytes, dtype_bytes, dtype_bytes)


def packed_storage(scheme: Scheme, plain_bytes: int = 2) -> Storage:
    """As a packing stores large matrices."""
    linear = packed_bytes(scheme, _LARGE, _LARGE) / _LARGE**2
    attention = plain_bytes if "attention" in scheme.packing.kept else linear
    return Storage(linear, attention, plain_bytes, scheme.packing.name)


def find_scheme(words: str, without: Iterable[str] = ()) -> Scheme:
    """The scheme that words mean, whatever their case and punctuation; UserError where there is none.

    Names that begin with one of `without` are not suggested then.
    """
    words = words[:64]
    text = words.lower()
    said = [text]
    for choice in (_GROUP, _BITS, _INTEGER):  # less and less of what may be a choice and no name
        said.append(choice.sub(" ", said[-1]))
    found = next((p for words_left in said if (p := _by_word().get(_plain(words_left)))), None)
    if not found:
        offered = {word: p.name for word, p in _by_word().items() if not p.name.startswith(tuple(without))}
        near = get_close_matches(_plain(text), offered, n=3, cutoff=0.4)
        names = dict.fromkeys(offered[n] for n in near) or dict.fromkeys(offered.values())
        raise UserError(f"there is no quant {words!r}", f"did you mean {' or '.join(names)}?")
    bits, group = _BITS.search(text) or _INTEGER.search(text), _GROUP.search(text)
    return scheme(
        found.name, float(bits[1]) if bits else None, int(group[1] or group[2]) if group and found.groups else None
    )


@cache
def _by_word() -> dict[str, Packing]:
    return {_plain(word): p for p in packings().values() for word in (*p.aliases, p.name)}


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def scheme(name: str, bits: float | None = None, group: int | None = None) -> Scheme:
    """The packing of that name with the choices made, or its usual ones; UserError where it has no such choice."""
    packing = packings()[name]
    bits, group = packing.default_bits if bits is None else bits, packing.default_group if group is None else group
    low, high = packing.bits_between
    if bits not in packing.bits and not low <= bits <= high:
        can = ", ".join(map(str, packing.bits)) or f"{low:g} to {high:g}"
        raise UserError(f"{name} has no {bits:g} bits", f"It has {can}")
    if packing.groups and group not in packing.groups:
        raise UserError(f"{name} has no groups of {group}", f"It has {', '.join(map(str, packing.groups))}")
    return Scheme(packing, bits, group)


@cache
def packings() -> dict[str, Packing]:
    """Every packing by name."""
    return {p.name: p for p in entries("packings", Packing).values()}


def packed_bytes(of: Scheme, rows: int, columns: int) -> int:
    """What a matrix takes on disk and in memory; a row has as many numbers as the layer has inputs."""
    return sum(array_bytes(of, array, rows, columns) for array in of.packing.arrays)


def array_bytes(of: Scheme, array: Array, rows: int, columns: int) -> int:
    """What one of the arrays of a matrix takes."""
    rows, columns = pad_to(rows, of.packing.rows_multiple), pad_to(columns, of.packing.columns_multiple)
    bits = array.bits or of.packing.stored_bits.get(int(of.bits), of.bits)
    if array.packed_along:
        across, along = rows, columns  # a number for each weight, or for each group of a row
        if array.per != "weight":
            along = 1 if of.group < 0 else -(-columns // of.group)
        if array.packed_along == "rows":
            across, along = along, across
        return across * -(-int(along * bits) // array.word_bits) * array.word_bits // 8
    return int(-(-_numbers_in(of, array, rows, columns) * array.count * bits // 8))


def _numbers_in(of: Scheme, array: Array, rows: int, columns: int) -> int:
    group = columns if of.group < 0 else of.group
    groups = -(-rows * columns // group) if of.packing.groups_across_rows else rows * -(-columns // group)
    tile = of.packing.tile
    return {
        "weight": rows * columns,
        "group": groups,
        "256 groups": -(-groups // _GROUPS_IN_A_GROUP),
        "tile": -(-rows // tile) * -(-columns // tile),
        "row": rows,
        "column": columns,
        "tensor": 1,
    }[array.per]
