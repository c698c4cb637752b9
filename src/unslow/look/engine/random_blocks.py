"""Endless random weights of a ggml type: as many bits to read and multiply as real ones, and no meaning.

A pool is made once for each type and handed out round and round: what decides the speed of a model is how many bytes it
has and where they lie, never their values, as long as all of them are finite.
"""

import random
import struct
from collections.abc import Iterator

from unslow.catalog.quants import Quant

POOL_BYTES = 4 * 1024**2
SPREAD = 0.02  # the size of weights in trained models; keeps activations far from overflow

_FLOATS = {"F32": "f", "F16": "e"}


def can_fill(quant: Quant) -> bool:
    """Whether this program knows how to make up blocks of that type."""
    return bool(quant.half_fields) or quant.name in _FLOATS


class Blocks:
    """Whole blocks of one type, the same ones in every run."""

    def __init__(self, quant: Quant) -> None:
        self._pool = memoryview(_floats(quant) if quant.name in _FLOATS else _quantised(quant))
        self._at = 0

    def take(self, count: int) -> Iterator[memoryview]:
        """The next `count` bytes in pieces; the next call goes on where this one ended."""
        while count:
            piece = self._pool[self._at : self._at + count]
            self._at = (self._at + len(piece)) % len(self._pool)
            count -= len(piece)
            yield piece


def _quantised(quant: Quant) -> bytes:
    """Random bits, with scales that are finite and small."""
    blocks = POOL_BYTES // quant.block_bytes
    pool = bytearray(_dice().randbytes(blocks * quant.block_bytes))
    for offset, value in quant.half_fields.items():
        low, high = struct.pack("<e", value)
        pool[offset :: quant.block_bytes] = bytes([low]) * blocks
        pool[offset + 1 :: quant.block_bytes] = bytes([high]) * blocks
    return bytes(pool)


def _floats(quant: Quant) -> bytes:
    """Normal numbers, a few of them over and over: drawing each one would take longer than writing the file."""
    dice = _dice()
    few = [dice.gauss(0, SPREAD) for _ in range(8191)]
    return struct.pack(f"<{len(few)}{_FLOATS[quant.name]}", *few) * (POOL_BYTES // 8192 // quant.block_bytes)


def _dice() -> random.Random:
    return random.Random(0)  # noqa: S311 (no secret: the same file on every machine)
