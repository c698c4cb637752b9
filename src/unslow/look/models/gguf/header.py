"""The bytes of a GGUF header: metadata and the list of tensors with their places, never a weight.

Versions 1 to 3, little and big endian. A header is untrusted input: every count and length is checked before
anything is made of it.
"""

import math
import struct
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

from unslow.catalog.quants import quants_by_ggml_type
from unslow.facts.model import MOST_TENSORS, MetadataValue, Tensor
from unslow.look.models.gguf.window import Source, Window
from unslow.look.system import LookError

LONGEST_KEY_BYTES = 65_535  # the limit that the format's specification sets
LONGEST_VALUE_BYTES = 4096
LONGEST_KEPT_ARRAY = 1024  # one number for each layer, with room to spare
_INTEGER_BYTES = 32  # what Python takes for one
_ALIGNMENT, _DEFAULT_ALIGNMENT = "general.alignment", 32
_UINT32, _STRING, _ARRAY = 4, 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
FARTHEST_BYTES = 2**60  # an exabyte
MOST_KEYS = 10_000
MOST_DIMENSIONS = 8  # llama.cpp has four; the format leaves room for more
LONGEST_NAME_BYTES = 1024  # llama.cpp takes 63, its relatives for pictures 127
LARGEST_TENSOR_ELEMENTS = 2**50
_LEAST_KEY_BYTES, _LEAST_TENSOR_BYTES = 9, 20  # with the lengths of four bytes that version 1 has


class TensorInfo(NamedTuple):
    """A tensor as the header lists it."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int  # From the start of the weights


class PlacedTensor(NamedTuple):
    """A tensor of known size at its place."""

    tensor: Tensor
    offset: int

    @property
    def end(self) -> int:
        return self.offset + self.tensor.bytes


class Cut(NamedTuple):
    """A file that ends before its tensors do."""

    missing_bytes: int
    tensor: str  # The first one that is not whole


class Header(NamedTuple):
    """What a GGUF file says before its weights."""

    version: int
    metadata: dict[str, MetadataValue]
    array_lengths: dict[str, int]  # Of the arrays and long texts that were stepped over
    tensors: list[Tensor]
    cut: Cut | None  # What the file lacks at its end


def read_header(source: Source) -> Header:
    """The header at the start of a file; LookError where it is not a sound one."""
    window = Window(source)
    if window.take(4) != b"GGUF":
        raise LookError("is not a GGUF file: it does not start with GGUF")
    order, version = "<", window.integer("I")
    if version and not version & 0xFFFF:  # a small number in the other byte order
        order, version = ">", int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in (1, 2, 3):
        raise LookError(f"is GGUF version {version}; versions 1 to 3 are known")
    window.set_format(order, "I" if version == 1 else "Q")
    tensor_count, key_count = window.lengths(2)
    window.check_items(tensor_count, _LEAST_TENSOR_BYTES, MOST_TENSORS, "tensors")
    window.check_items(key_count, _LEAST_KEY_BYTES, MOST_KEYS, "metadata keys")
    values, lengths, alignment = read_metadata(window, key_count)
    infos: dict[str, TensorInfo] = {}
    for _ in range(tensor_count):
        info = _read_info(window)
        if infos.setdefault(info.name, info) is not info:
            raise LookError(f"has the tensor {info.name[:64]!r} twice")
    data_start = window.place + -window.place % alignment
    data_bytes = None if window.size is None else window.size - data_start
    placed = checked_places(sized_tensors(list(infos.values()), data_bytes), alignment)
    cut = None
    if window.size is not None:
        beyond = [p for p in _in_order(placed) if data_start + p.end > window.size]
        cut = Cut(data_start + beyond[-1].end - window.size, beyond[0].tensor.name) if beyond else None
    return Header(version, values, lengths, [p.tensor for p in placed], cut)


def read_metadata(window: Window, count: int) -> tuple[dict[str, MetadataValue], dict[str, int], int]:
    """The values of `count` keys, lengths of what was skipped, and the alignment of tensors; LookError if not valid."""
    values: dict[str, MetadataValue] = {}
    lengths: dict[str, int] = {}
    alignment, seen = _DEFAULT_ALIGNMENT, set()
    for _ in range(count):
        key, kind = read_name(window, LONGEST_KEY_BYTES, "key"), window.integer("I")
        if not key or key in seen:
            raise LookError(f"has the key {key[:64]!r} twice" if key else "has a key without a name")
        seen.add(key)
        value, length = _read_array(window) if kind == _ARRAY else _read_scalar(window, kind)
        if key == _ALIGNMENT:
            if kind != _UINT32 or not isinstance(value, int) or value.bit_count() != 1:
                raise LookError(f"has the alignment {str(value)[:64]!r}, which is not a power of two of 32 bits")
            alignment = value
        if value is None:
            lengths[key] = length
        elif not (isinstance(value, float) and not math.isfinite(value)):
            values[key] = value
    return values, lengths, alignment


def read_name(window: Window, longest: int, what: str) -> str:
    """The name of a key or a tensor; LookError where it is not text."""
    length = window.length()
    if length > longest:
        raise LookError(f"has a {what} with a name of {length} bytes; this program reads up to {longest}")
    window.check_kept(length)
    name = window.take(length)
    try:
        text = name.decode()
    except UnicodeDecodeError as error:
        raise LookError(f"has a {what} whose name is not text: {name[:64]!r}") from error
    if "\0" in text:  # what C would take for its end
        raise LookError(f"has a {what} with a null byte in its name: {name[:64]!r}")
    return text


def _read_scalar(window: Window, kind: int) -> tuple[str | float | None, int]:
    """A number or a short text; of a long text, such as a chat template, the length."""
    if kind in _NUMBERS:
        return window.numbers(_NUMBERS[kind])[0], 0
    if kind != _STRING:
        raise LookError(f"has a value of the unknown type {kind}")
    length = window.length()
    if length <= LONGEST_VALUE_BYTES:
        window.check_kept(length)
        return window.take(length).decode("utf-8", "replace"), length
    window.skip(length)
    return None, length


def _read_array(window: Window) -> tuple[list[int] | None, int]:
    kind, count = window.integer("I"), window.length()
    if kind == _STRING:
        window.skip_strings(count)
    elif kind not in _NUMBERS:  # llama.cpp reads no arrays within arrays either
        raise LookError(f"has an array of the type {kind}" + " (arrays within an array)" * (kind == _ARRAY))
    elif count <= LONGEST_KEPT_ARRAY and _NUMBERS[kind] not in "fd":
        window.check_kept(count * _INTEGER_BYTES)
        return [int(n) for n in window.numbers(_NUMBERS[kind], count)], count
    else:
        window.skip(count * struct.calcsize("<" + _NUMBERS[kind]))
    return None, count


def _read_info(window: Window) -> TensorInfo:
    name = read_name(window, LONGEST_NAME_BYTES, "tensor")
    rank = window.integer("I")
    if rank > MOST_DIMENSIONS:
        raise LookError(
            f"has a tensor, {name[:64]!r}, of {rank} dimensions; this program reads up to {MOST_DIMENSIONS}"
        )
    shape = window.lengths(rank) or (1,)  # without dimensions it is one number, as for ggml
    if prod(shape) > LARGEST_TENSOR_ELEMENTS:
        elements = " × ".join(map(str, shape))
        raise LookError(f"has a tensor, {name[:64]!r}, of {elements} elements, more than any machine holds")
    return TensorInfo(name, shape, window.integer("I"), window.integer("Q"))


def sized_tensors(infos: Sequence[TensorInfo], data_bytes: int | None) -> list[PlacedTensor]:
    """The tensors with their sizes; one of a type that the catalog lacks ends where the next one starts."""
    starts = sorted({i.offset for i in infos})
    if starts and data_bytes is not None and data_bytes > starts[-1]:
        starts.append(data_bytes)
    placed = []
    for info in infos:
        quant = quants_by_ggml_type().get(info.type)
        row = info.shape[0] if info.shape else 1
        if quant and row % quant.block_elements:
            blocks = f"rows of {row} elements, which are not whole blocks of {quant.block_elements}"
            raise LookError(f"has a tensor, {info.name[:64]!r}, of the type {quant.name} with {blocks}")
        elements: int = prod(info.shape)
        after = bisect_right(starts, info.offset)
        gap = starts[after] - info.offset if after < len(starts) and elements else 0
        size = quant.bytes_of(elements) if quant else gap
        tensor = Tensor(info.name, quant.name if quant else f"type {info.type}", info.shape, size)
        placed.append(PlacedTensor(tensor, info.offset))
    return placed


def checked_places(placed: list[PlacedTensor], alignment: int) -> list[PlacedTensor]:
    """The same, or a LookError where a tensor lies where none can, or two lie in one place."""
    for tensor, offset in placed:
        if offset % alignment:
            raise LookError(f"has a tensor, {tensor.name[:64]!r}, at {offset}, which is not a multiple of {alignment}")
        if offset + tensor.bytes > FARTHEST_BYTES:
            raise LookError(f"has a tensor, {tensor.name[:64]!r}, that ends an exabyte away")
    for one, next_one in pairwise(_in_order(placed)):
        if one.end > next_one.offset:
            raise LookError(f"has tensors that overlap: {one.tensor.name[:64]!r} and {next_one.tensor.name[:64]!r}")
    return placed


def _in_order(placed: Sequence[PlacedTensor]) -> list[PlacedTensor]:
    return sorted((p for p in placed if p.tensor.bytes), key=lambda p: p.offset)
