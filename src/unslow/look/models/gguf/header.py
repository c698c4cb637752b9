"""The bytes of a GGUF header: metadata and the list of tensors, never a weight.

Versions 1 to 3, little and big endian. A header comes from a stranger: every count and length is checked before
anything is made of it.
"""

from math import prod
from typing import NamedTuple

from unslow.facts.blueprint import Tensor, Value
from unslow.facts.tensor_table import MOST_TENSORS
from unslow.look.models.gguf.metadata import read_metadata, read_name
from unslow.look.models.gguf.places import Cut, Info, checked, cut_short, sized
from unslow.look.models.gguf.sources import Source
from unslow.look.models.gguf.window import Window
from unslow.look.system import LookError

MOST_KEYS = 10_000
MOST_DIMENSIONS = 8  # llama.cpp has four; the format leaves room for more
LONGEST_NAME_BYTES = 1024  # llama.cpp takes 63, its relatives for pictures 127
LARGEST_TENSOR_ELEMENTS = 2**50

_LEAST_KEY_BYTES, _LEAST_TENSOR_BYTES = 9, 20  # with the lengths of four bytes that version 1 has


class Header(NamedTuple):
    """What a GGUF file says before its weights."""

    version: int
    metadata: dict[str, Value]
    array_lengths: dict[str, int]
    """Of the arrays and long texts that were stepped over."""
    tensors: list[Tensor]
    cut: Cut | None
    """What the file lacks at its end."""


def read_header(source: Source) -> Header:
    """The header at the start of a file; LookError where it is not a sound one."""
    window = Window(source)
    if window.take(4) != b"GGUF":
        raise LookError("is not a GGUF file: it does not start with GGUF")
    version = _read_version(window)
    tensor_count, key_count = window.lengths(2)
    window.check_items(tensor_count, _LEAST_TENSOR_BYTES, MOST_TENSORS, "tensors")
    window.check_items(key_count, _LEAST_KEY_BYTES, MOST_KEYS, "metadata keys")
    values, lengths, alignment = read_metadata(window, key_count)
    infos = _read_infos(window, tensor_count)
    data_start = window.place + -window.place % alignment
    placed = checked(sized(infos, None if window.size is None else window.size - data_start), alignment)
    return Header(version, values, lengths, [p.tensor for p in placed], cut_short(placed, data_start, window.size))


def _read_version(window: Window) -> int:
    order, version = "<", window.integer("I")
    if version and not version & 0xFFFF:  # a small number in the other byte order
        order, version = ">", int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in (1, 2, 3):
        raise LookError(f"is GGUF version {version}; versions 1 to 3 are known")
    window.set_format(order, "I" if version == 1 else "Q")
    return version


def _read_infos(window: Window, count: int) -> list[Info]:
    infos: dict[str, Info] = {}
    for _ in range(count):
        info = _read_info(window)
        if infos.setdefault(info.name, info) is not info:
            raise LookError(f"has the tensor {info.name[:64]!r} twice")
    return list(infos.values())


def _read_info(window: Window) -> Info:
    name = read_name(window, LONGEST_NAME_BYTES, "tensor")
    rank = window.integer("I")
    if rank > MOST_DIMENSIONS:
        raise LookError(
            f"has a tensor, {name[:64]!r}, of {rank} dimensions; this program reads up to {MOST_DIMENSIONS}"
        )
    shape = window.lengths(rank) or (1,)  # without dimensions it is one number, as for ggml
    if prod(shape) > LARGEST_TENSOR_ELEMENTS:
        raise LookError(
            f"has a tensor, {name[:64]!r}, of {' × '.join(map(str, shape))} elements, which no machine holds"
        )
    return Info(name, shape, window.integer("I"), window.integer("Q"))
