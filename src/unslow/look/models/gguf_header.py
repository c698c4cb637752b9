"""The bytes of a GGUF header: metadata and the list of tensors, never a weight.

Versions 1 to 3, little and big endian. Long arrays (the vocabulary) are stepped over, so that a header of 10 MB costs
some milliseconds. A header comes from a stranger: every count and length is checked before anything is made of it.
"""

import math
import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from unslow.catalog.quants import quants_by_ggml_type
from unslow.look.models.gguf_window import Window, bounded
from unslow.look.system import LookError

Scalar = str | int | float | bool
Value = Scalar | list[int]

MOST_KEYS = 10_000
MOST_TENSORS = 65_536
MOST_DIMENSIONS = 8
LONGEST_NAME_BYTES = 65_535  # the limit that the format's specification sets for keys
LONGEST_VALUE_BYTES = 4096
LONGEST_KEPT_ARRAY = 1024  # one number for each layer, with room to spare
LARGEST_TENSOR_ELEMENTS = 2**50

_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Tensor(NamedTuple):
    """One tensor; `bytes` is without the padding that follows it."""

    name: str
    elements: int
    type: str
    bytes: int


class Header(NamedTuple):
    """What a GGUF file says before its weights."""

    version: int
    metadata: dict[str, Value]
    array_lengths: dict[str, int]
    """Of the arrays and long texts that were stepped over."""
    tensors: list[Tensor]


def read_header(file: BinaryIO, size: int) -> Header:
    """The header at the start of an open file of `size` bytes; LookError where it is not a sound one."""
    window = Window(file, size)
    if window.take(4) != b"GGUF":
        raise LookError("is not a GGUF file: it does not start with GGUF")
    version = _read_version(window)
    tensor_count = bounded(window.length(), MOST_TENSORS, "tensors")
    key_count = bounded(window.length(), MOST_KEYS, "metadata keys")
    metadata, lengths = _read_metadata(window, key_count)
    infos = [_read_info(window) for _ in range(tensor_count)]
    return Header(version, metadata, lengths, list(_sized(infos, window.left)))


def _read_version(window: Window) -> int:
    order, version = "<", window.integer("I")
    if version and not version & 0xFFFF:  # a small number in the other byte order
        order, version = ">", int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in (1, 2, 3):
        raise LookError(f"is GGUF version {version}; versions 1 to 3 are known")
    window.set_format(order, "I" if version == 1 else "Q")
    return version


def _read_name(window: Window, what: str) -> str:
    return window.text(bounded(window.length(), LONGEST_NAME_BYTES, f"bytes in the name of a {what}"))


def _read_metadata(window: Window, count: int) -> tuple[dict[str, Value], dict[str, int]]:
    values: dict[str, Value] = {}
    lengths: dict[str, int] = {}
    for _ in range(count):
        key, kind = _read_name(window, "key"), window.integer("I")
        value, length = _read_array(window) if kind == _ARRAY else _read_scalar(window, kind)
        if value is None:
            lengths[key] = length
        elif not (isinstance(value, float) and not math.isfinite(value)):
            values[key] = value
    return values, lengths


def _read_scalar(window: Window, kind: int) -> tuple[Scalar | None, int]:
    """A number or a short text; of a long text, such as a chat template, the length."""
    if kind in _NUMBERS:
        return window.numbers(_NUMBERS[kind])[0], 0
    if kind != _STRING:
        raise LookError(f"has a value of the unknown type {kind}")
    length = window.length()
    if length <= LONGEST_VALUE_BYTES:
        return window.text(length), length
    window.skip(length)
    return None, length


def _read_array(window: Window) -> tuple[list[int] | None, int]:
    """A short array of whole numbers; of any other, the length."""
    kind, count = window.integer("I"), window.length()
    if kind == _STRING:
        window.skip_strings(count)
    elif kind not in _NUMBERS:
        raise LookError(f"has an array of the type {kind}, which llama.cpp does not read either")
    elif count <= LONGEST_KEPT_ARRAY and _NUMBERS[kind] not in "fd":
        return [int(n) for n in window.numbers(_NUMBERS[kind], count)], count
    else:
        window.skip(count * struct.calcsize("<" + _NUMBERS[kind]))
    return None, count


class _Info(NamedTuple):
    name: str
    elements: int
    type: int
    offset: int


def _read_info(window: Window) -> _Info:
    name = _read_name(window, "tensor")
    rank = bounded(window.integer("I"), MOST_DIMENSIONS, f"dimensions of {name[:64]}")
    elements = math.prod(window.length() for _ in range(rank))
    bounded(elements, LARGEST_TENSOR_ELEMENTS, f"elements of {name[:64]}")
    return _Info(name, elements, window.integer("I"), window.integer("Q"))


def _sized(infos: list[_Info], data_bytes: int) -> Iterator[Tensor]:
    """The tensors with their sizes; one of a type that the catalogue lacks ends where the next one starts."""
    known = quants_by_ggml_type()
    starts = sorted({i.offset for i in infos} | {data_bytes})
    for info in infos:
        if quant := known.get(info.type):
            yield Tensor(info.name, info.elements, quant.name, quant.bytes_of(info.elements))
        else:
            after = starts[min(bisect_right(starts, info.offset), len(starts) - 1)]
            gap = max(0, min(after, data_bytes) - info.offset)
            yield Tensor(info.name, info.elements, f"type {info.type}", gap)
