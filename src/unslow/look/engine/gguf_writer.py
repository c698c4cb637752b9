"""The bytes of a GGUF file, version 3, little endian: the header, then tensors on aligned places."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

ALIGNMENT = 32  # the format's default

_U32, _F32, _BOOL, _STRING, _ARRAY = 4, 6, 7, 8, 9


class Int32(list[int]):
    """An array of 32-bit numbers, where a plain list would be text."""

    type, code = 5, "i"


class Float32(list[float]):
    """An array of floats."""

    type, code = 6, "f"


Value = bool | int | float | str | Int32 | Float32 | list[str]


class TensorPlan(NamedTuple):
    """A tensor to be written: its innermost dimension first, as ggml counts them."""

    name: str
    dimensions: tuple[int, ...]
    ggml_type: int
    bytes: int


def encoded_header(metadata: Mapping[str, Value], tensors: Sequence[TensorPlan]) -> bytes:
    """Everything before the first tensor, padded."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    parts += [_text(key) + _value(value) for key, value in metadata.items()]
    parts += _infos(tensors)
    return padded(b"".join(parts))


def padded(data: bytes) -> bytes:
    """The data up to the next aligned place."""
    return data + bytes(padding(len(data)))


def padding(size: int) -> int:
    """Bytes from `size` to the next aligned place."""
    return -size % ALIGNMENT


def _infos(tensors: Sequence[TensorPlan]) -> Iterable[bytes]:
    offset = 0
    for name, dimensions, ggml_type, size in tensors:
        shape = struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
        yield _text(name) + shape + struct.pack("<IQ", ggml_type, offset)
        offset += size + padding(size)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", _BOOL, value)
        case int():
            return struct.pack("<II", _U32, value)
        case float():
            return struct.pack("<If", _F32, value)
        case str():
            return struct.pack("<I", _STRING) + _text(value)
        case Int32() | Float32():
            return struct.pack(f"<IIQ{len(value)}{value.code}", _ARRAY, value.type, len(value), *value)
        case _:
            return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_text, value))
