"""Made-up files of well-known models: the catalogue's shape and mix, filled with random weights.

    python -m lab.h200_speed.models llama-3.1-8b@Q4_K_M FILE

What decides the speed of a model is how many bytes it has and where they lie, never their values, as long as all of
them are finite: numbers that are not would send every token to the same experts.
"""

import random
import struct
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from lab.write_headers import _keys, _plans

from unslow.catalog.models import model_at
from unslow.catalog.quants import Quant, quants_by_ggml_type
from unslow.facts.model import Blueprint
from unslow.look.engine.made_up_models import POOL_BYTES, RandomBlocks, TensorPlan, can_fill, encoded_header, padding
from unslow.think.blueprints import made_up

_SMALL_EXPONENT = 116  # E8M0: 2^(116 - 127) times at most 6
_SMALL_HIGH_BYTE = 0x3C  # BF16: about 2^-7
_SMALL_SCALE = 1e-5


class Model(NamedTuple):
    """A model by its file name in the catalogue, in a mix."""

    stem: str
    quant: str

    @property
    def blueprint(self) -> Blueprint:
        """Down to its tensors."""
        return made_up(model_at(self.stem), self.quant)


def named(text: str) -> Model:
    """STEM@QUANT as a model."""
    stem, _, quant = text.partition("@")
    return Model(stem, quant)


def described(model: Model) -> dict[str, Any]:
    """What a row says about its model: the shape's numbers, and the bytes of its tensors by type."""
    known, blueprint = model_at(model.stem), model.blueprint
    by_type: Counter[str] = Counter()
    for tensor in blueprint.tensors:
        by_type[tensor.type] += tensor.bytes
    return {
        "name": f"{model.stem}@{model.quant}",
        "architecture": known.architecture,
        **msgspec.to_builtins(known.shape),
        "quant": model.quant,
        "file_bytes": file_bytes(model),
        "bytes_by_type": dict(by_type),
    }


def file_bytes(model: Model) -> int:
    """The size of its file."""
    header, plans = _planned(model)
    return len(header) + sum(plan.bytes + padding(plan.bytes) for plan in plans)


def write_model(model: Model, path: Path) -> None:
    """Write the whole file; it takes its name when it is complete."""
    header, plans = _planned(model)
    pools: dict[int, RandomBlocks] = {}
    part = path.with_suffix(".part")
    with part.open("wb", buffering=0) as file:
        file.write(header)
        for plan in plans:
            for piece in _pieces(plan, pools):
                file.write(piece)
            file.write(bytes(padding(plan.bytes)))
    part.replace(path)


def _planned(model: Model) -> tuple[bytes, list[TensorPlan]]:
    blueprint = model.blueprint
    plans = _plans(blueprint)
    return encoded_header(_keys(blueprint), plans), plans


def _pieces(plan: TensorPlan, pools: dict[int, RandomBlocks]) -> Iterable[bytes | memoryview]:
    if "norm" in plan.name and plan.name.endswith(".weight"):
        return (b"\0\0\x80\x3f" * (plan.bytes // 4),)
    if plan.ggml_type not in pools:
        pools[plan.ggml_type] = _pool(quants_by_ggml_type()[plan.ggml_type])
    return pools[plan.ggml_type].take(plan.bytes)


def _pool(quant: Quant) -> RandomBlocks:
    return RandomBlocks(quant) if can_fill(quant) else _OtherBlocks(quant)


class _OtherBlocks(RandomBlocks):
    """Of types that the package does not make up."""

    def __init__(self, quant: Quant) -> None:
        self._pool = memoryview(_bits(quant))
        self._at = 0


def _bits(quant: Quant) -> bytes:
    """Random bits with a small scale in front of each block."""
    count = POOL_BYTES // quant.block_bytes
    pool = bytearray(random.Random(0).randbytes(count * quant.block_bytes))
    match quant.name[:3]:
        case "MXF":
            pool[0 :: quant.block_bytes] = bytes([_SMALL_EXPONENT]) * count
        case "BF1":
            pool[1::2] = bytes([_SMALL_HIGH_BYTE]) * count
        case "IQ2" | "IQ3" | "IQ4":
            low, high = struct.pack("<e", _SMALL_SCALE)
            pool[0 :: quant.block_bytes] = bytes([low]) * count
            pool[1 :: quant.block_bytes] = bytes([high]) * count
        case _:
            raise SystemExit(f"no random blocks of {quant.name}")
    return bytes(pool)


if __name__ == "__main__":
    write_model(named(sys.argv[1]), Path(sys.argv[2]))
