"""How other programs than llama.cpp pack a matrix: the arrays that a scheme makes of it, and what it leaves alone."""

from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from unslow.catalog import entries
from unslow.facts.errors import UserError

Module: TypeAlias = Literal["embeddings", "output", "norms", "routers", "attention"]
_GROUPS_IN_A_GROUP = 256  # bitsandbytes' nested blocks


class Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the arrays that a matrix becomes."""

    name: str
    per: Literal["weight", "group", "256 groups", "tile", "row", "column", "tensor"]
    bits: int = 0
    """Of each number; those of the scheme where 0."""
    count: int = 1
    """Numbers for each `per`."""
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
    bits_between: tuple[float, float] = (0, 0)
    """Where any number will do, because each matrix has its own."""
    stored_bits: dict[int, float] = {}
    """What numbers of so many bits take, where they do not fill a word."""
    groups: tuple[int, ...] = ()
    """How many weights may share a scale; -1 is a whole row."""
    default_group: int = -1
    groups_across_rows: bool = False
    tile: int = 1
    rows_multiple: int = 1
    columns_multiple: int = 1
    kept: tuple[Module, ...] = ()
    """What stays in 16 bits by default."""
    at_bits: dict[Module, float] = {}
    """What has its own number of bits by default."""
    aliases: tuple[str, ...] = ()


class Scheme(NamedTuple):
    """A packing with its choices made."""

    packing: Packing
    bits: float
    group: int


@cache
def packings() -> dict[str, Packing]:
    """Every packing by name."""
    return {p.name: p for _, p in entries("packings", Packing)}


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


def packed_bytes(of: Scheme, rows: int, columns: int) -> int:
    """What a matrix takes on disk and in memory; a row has as many numbers as the layer has inputs."""
    return sum(array_bytes(of, array, rows, columns) for array in of.packing.arrays)


def array_bytes(of: Scheme, array: Array, rows: int, columns: int) -> int:
    """What one of the arrays of a matrix takes."""
    rows, columns = _up(rows, of.packing.rows_multiple), _up(columns, of.packing.columns_multiple)
    bits = array.bits or of.packing.stored_bits.get(int(of.bits), of.bits)
    if array.packed_along:
        across, along = _grid(of, array, rows, columns)
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


def _grid(of: Scheme, array: Array, rows: int, columns: int) -> tuple[int, int]:
    """The rows and columns of an array that has a number for each weight or for each group of a row."""
    if array.per == "weight" or of.group < 0:
        return rows, columns if array.per == "weight" else 1
    return rows, -(-columns // of.group)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
