"""Where tensors lie in their file, and whether that can be: whole blocks, no overlap, and an end to the file."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

from unslow.catalog.quants import Quant, quants_by_ggml_type
from unslow.facts.blueprint import Tensor
from unslow.look.system import LookError

FARTHEST_BYTES = 2**60  # an exabyte


class Info(NamedTuple):
    """A tensor as the header lists it."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int
    """From the start of the weights."""


class Placed(NamedTuple):
    """A tensor of known size at its place."""

    tensor: Tensor
    offset: int

    @property
    def end(self) -> int:
        """Where it ends, without padding."""
        return self.offset + self.tensor.bytes


class Cut(NamedTuple):
    """A file that ends before its tensors do."""

    missing_bytes: int
    tensor: str
    """The first one that is not whole."""


def sized(infos: Sequence[Info], data_bytes: int | None) -> list[Placed]:
    """The tensors with their sizes; one of a type that the catalogue lacks ends where the next one starts."""
    starts = sorted({i.offset for i in infos})
    if starts and data_bytes is not None and data_bytes > starts[-1]:
        starts.append(data_bytes)
    return [Placed(_tensor(info, starts), info.offset) for info in infos]


def _tensor(info: Info, starts: Sequence[int]) -> Tensor:
    quant = quants_by_ggml_type().get(info.type)
    return _of_known_type(info, quant) if quant else _of_any_type(info, starts)


def _of_known_type(info: Info, quant: Quant) -> Tensor:
    row = info.shape[0] if info.shape else 1
    if row % quant.block_elements:
        blocks = f"rows of {row} elements, which are no whole blocks of {quant.block_elements}"
        raise LookError(f"has a tensor, {info.name[:64]!r}, of the type {quant.name} with {blocks}")
    return Tensor(info.name, quant.name, info.shape, quant.bytes_of(prod(info.shape)))


def _of_any_type(info: Info, starts: Sequence[int]) -> Tensor:
    """A new type's size shows all the same: whatever lies before the next tensor, or before the end of the file."""
    after = bisect_right(starts, info.offset)
    gap = starts[after] - info.offset if after < len(starts) else 0
    return Tensor(info.name, f"type {info.type}", info.shape, gap if prod(info.shape) else 0)


def checked(placed: list[Placed], alignment: int) -> list[Placed]:
    """The same, or a LookError where a tensor lies where none can, or two lie in one place."""
    for tensor, offset in placed:
        if offset % alignment:
            raise LookError(f"has a tensor, {tensor.name[:64]!r}, at {offset}, which is no multiple of {alignment}")
        if offset + tensor.bytes > FARTHEST_BYTES:
            raise LookError(f"has a tensor, {tensor.name[:64]!r}, that ends an exabyte away")
    for one, next_one in pairwise(_in_order(placed)):
        if one.end > next_one.offset:
            raise LookError(f"has tensors that overlap: {one.tensor.name[:64]!r} and {next_one.tensor.name[:64]!r}")
    return placed


def _in_order(placed: Sequence[Placed]) -> Iterator[Placed]:
    """Tensors that take room, from the first place to the last."""
    return iter(sorted((p for p in placed if p.tensor.bytes), key=lambda p: p.offset))


def cut_short(placed: Sequence[Placed], data_start: int, size: int | None) -> Cut | None:
    """What lies beyond the end of a file of `size` bytes; nothing where the size is not known."""
    if size is None:
        return None
    beyond = [p for p in _in_order(placed) if data_start + p.end > size]
    return Cut(data_start + beyond[-1].end - size, beyond[0].tensor.name) if beyond else None
