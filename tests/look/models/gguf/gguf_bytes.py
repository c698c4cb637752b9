"""GGUF headers byte by byte, sound and unsound."""

import io
import struct

from unslow.look.models.gguf.header import Header, read_header
from unslow.look.models.gguf.window import FileSource

HUGE = 2**60
U32, STRING, ARRAY = 4, 8, 9


def parsed(data: bytes, size: int | None = None) -> Header:
    return read_header(FileSource(io.BytesIO(data), len(data) if size is None else size))


def text(value: bytes, order: str = "<", length: str = "Q") -> bytes:
    return struct.pack(order + length, len(value)) + value


def header(tensors: int, keys: int, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + rest


def key(name: bytes, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def array(kind: int, count: int, items: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + items


def info(name: bytes, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def nested(depth: int) -> bytes:
    """A header with one value: an array of an array of an array ..."""
    return header(0, 1, key(b"k", ARRAY, array(ARRAY, 1) * depth + array(U32, 1, bytes(4))))
