"""The header of a safetensors file: the names, types and shapes of its tensors, never a weight.

Eight bytes tell the length of a JSON object; the tensors follow it without a gap, up to the end of the file. What the
format's own reader refuses is refused here too: a gap or an overlap also gives away a name that stands there twice.
"""

import math
from collections.abc import Iterator
from typing import Annotated, BinaryIO, NamedTuple

import msgspec

from unslow.facts.blueprint import Tensor
from unslow.look.system import LookError

MOST_HEADER_BYTES = 16 * 1024**2  # the largest models have under a megabyte in each of their files
MOST_TENSORS = 65_536
LONGEST_NAME = 512
MOST_NOTES = 64
LONGEST_NOTE = 256
_LENGTH_BYTES = 8
_NOTES = "__metadata__"
_QUOTES = 10  # of one tensor: around its name, three keys and its type

BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
"""The bits of one element (safetensors 0.8, tensor.rs, Dtype)."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Info(msgspec.Struct, frozen=True):
    dtype: Annotated[str, msgspec.Meta(max_length=32)]
    shape: Annotated[list[_Count], msgspec.Meta(max_length=16)]
    data_offsets: tuple[_Count, _Count]


class Header(NamedTuple):
    """What a safetensors file says before its weights."""

    tensors: list[Tensor]
    notes: dict[str, str]
    """Its `__metadata__`, without what is long."""


_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_INFO = msgspec.json.Decoder(_Info)
_TEXTS = msgspec.json.Decoder(dict[str, str])


def read_header(file: BinaryIO, size: int) -> Header:
    """The header at the start of an open file of `size` bytes; LookError where it is not a sound one."""
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if size < _LENGTH_BYTES + 2:
        raise LookError(f"is not a safetensors file: it has {size} bytes")
    if length > MOST_HEADER_BYTES:
        raise LookError(f"speaks of a header of {length} bytes; this program reads up to {MOST_HEADER_BYTES}")
    if _LENGTH_BYTES + length > size:
        raise LookError(f"is cut short: its header has {length} bytes, the file {size} in all")
    return parse_header(file.read(length), size - _LENGTH_BYTES - length)


def parse_header(text: bytes, data_bytes: int) -> Header:
    """The header in `text`, checked against the bytes that follow it."""
    if text[:1] != b"{":
        raise LookError("is not a safetensors file: its header does not start with {")
    if text.count(b'"') > _QUOTES * MOST_TENSORS:  # whatever it is full of, before anything is made of it
        raise LookError(f"has more in its header than {MOST_TENSORS} tensors, up to which this program reads")
    try:
        entries = _RAW.decode(text)
        notes = entries.pop(_NOTES, None)
        infos = [(name, _INFO.decode(raw)) for name, raw in entries.items()]
        kept = _short(_TEXTS.decode(notes)) if notes is not None else {}
    except _JSON as error:
        raise LookError(f"has a header that is not as safetensors has it: {str(error)[:120]}") from error
    return Header(list(_placed(infos, data_bytes)), kept)


def _short(notes: dict[str, str]) -> dict[str, str]:
    short = [(k, v) for k, v in notes.items() if len(k) <= LONGEST_NAME and len(v) <= LONGEST_NOTE]
    return dict(short[:MOST_NOTES])


def _placed(infos: list[tuple[str, _Info]], data_bytes: int) -> Iterator[Tensor]:
    """The tensors in the order of their places, which must fill the data without a gap."""
    end = 0
    for name, info in sorted(infos, key=lambda item: item[1].data_offsets):
        start, stop = info.data_offsets
        if start != end or stop < start:
            raise LookError(f"has a tensor at the wrong place: {name[:64]} at {start} to {stop}, where {end} was due")
        yield _checked(name, info, stop - start)
        end = stop
    if end > data_bytes:
        raise LookError(f"is cut short: {end} bytes of tensors are due and {data_bytes} are there")
    if end < data_bytes:
        raise LookError(f"has {data_bytes - end} bytes that belong to no tensor")


def _checked(name: str, info: _Info, size: int) -> Tensor:
    """The tensor, of the size that its type and shape give; a type that is not known here is believed."""
    if len(name) > LONGEST_NAME:
        raise LookError(f"has a tensor with a name of {len(name)} letters: {name[:64]} ...")
    bits = BITS.get(info.dtype)
    if bits and math.prod(info.shape) * bits != size * 8:
        raise LookError(f"contradicts itself: {name[:64]} of {info.dtype} {info.shape} can't be {size} bytes")
    return Tensor(name, info.dtype, tuple(reversed(info.shape)), size)
