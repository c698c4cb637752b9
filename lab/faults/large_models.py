"""The models of the faults on a GPU: shapes and mixes of the catalogue, filled with random weights.

    python -m lab.faults.large_models FOLDER [NAME ...]

writes llama8b.gguf (4.9 GB), llama1b.gguf, llama1b-bf16.gguf, smol135m.gguf, moe30b.gguf (18.6 GB), llama70b.gguf
(42.5 GB), qwen0.6b.gguf, qwen14b.gguf (9 GB) and gemma12b.gguf (7.3 GB) at about the speed of the disk; a file that is
there is kept. Each byte of a prompt is a token of theirs. What decides the speed of a model is how many bytes it has
and where they lie, never what they say.
"""

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from unslow.catalog.models import model_at
from unslow.catalog.quants import Quant, quants, quants_by_ggml_type
from unslow.facts.model import Blueprint
from unslow.look.engine.made_up_models import (
    POOL_BYTES,
    Int32,
    RandomBlocks,
    TensorPlan,
    Value,
    _tokenizer,
    can_fill,
    encoded_header,
    padding,
)
from unslow.think.blueprints import made_up

LLAMA_8B, LLAMA_70B, MOE_30B = "llama8b", "llama70b", "moe30b"
LLAMA_1B, LLAMA_1B_BF16, SMOL_135M = "llama1b", "llama1b-bf16", "smol135m"
QWEN_06B, QWEN_14B, GEMMA_12B = "qwen0.6b", "qwen14b", "gemma12b"

SHAPES = {
    LLAMA_8B: ("llama-3.1-8b", "Q4_K_M"),
    LLAMA_1B: ("llama-3.2-1b", "Q4_K_M"),
    LLAMA_1B_BF16: ("llama-3.2-1b", "BF16"),
    SMOL_135M: ("smollm2-135m", "Q4_0"),
    MOE_30B: ("qwen3-30b-a3b", "Q4_K_M"),
    LLAMA_70B: ("llama-3.3-70b", "Q4_K_M"),
    QWEN_06B: ("qwen3-0.6b", "Q4_K_M"),
    QWEN_14B: ("qwen3-14b", "Q4_K_M"),
    GEMMA_12B: ("gemma-3-12b", "Q4_K_M"),
}
"""Each file, without its ending: a model of the catalogue and its mix of types."""

_ONE = b"\0\0\x80\x3f"
_BF16_ABOUT_A_HUNDREDTH = 0x3C  # its high byte: sign and exponent of 2^-7


def make_large_models(folder: Path, names: Iterable[str] = SHAPES) -> None:
    """Write what is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        began = time.monotonic()
        path = folder / f"{name}.gguf"
        if not path.exists():
            write_model(name, path)
        print(f"{path.name}: {path.stat().st_size / 1e9:.1f} GB, {time.monotonic() - began:.1f} s", flush=True)


def write_model(name: str, path: Path) -> None:
    """Write one model; it takes its name when it is complete."""
    stem, quant = SHAPES[name]
    blueprint = made_up(model_at(stem), quant)
    plans = [TensorPlan(t.name, t.shape, quants()[t.type].ggml_type, t.bytes) for t in blueprint.tensors]
    part = path.with_suffix(".part")
    with part.open("wb", buffering=0) as file:
        file.write(encoded_header(_keys(blueprint), plans))
        _write_tensors(file, plans)
    part.replace(path)


def _keys(blueprint: Blueprint) -> dict[str, Value]:
    keys: dict[str, Value] = {k: Int32(v) if isinstance(v, list) else v for k, v in blueprint.metadata.items()}
    words = next(v for k, v in blueprint.metadata.items() if k.endswith(".vocab_size"))
    assert isinstance(words, int)
    return {**keys, **{f"tokenizer.ggml.{key}": value for key, value in _tokenizer(words).items()}}


def _write_tensors(file: BinaryIO, plans: Iterable[TensorPlan]) -> None:
    pools: dict[int, RandomBlocks] = {}
    for plan in plans:
        if plan.ggml_type not in pools:
            pools[plan.ggml_type] = _blocks(quants_by_ggml_type()[plan.ggml_type])
        file.writelines(_ones(plan) or pools[plan.ggml_type].take(plan.bytes))
        file.write(bytes(padding(plan.bytes)))


def _ones(plan: TensorPlan) -> tuple[bytes, ...]:
    """Norms and the factors of rotations: all ones. None of another tensor."""
    return (_ONE * (plan.bytes // len(_ONE)),) if len(plan.dimensions) == 1 else ()


def _blocks(quant: Quant) -> RandomBlocks:
    return RandomBlocks(quant) if can_fill(quant) else _Bf16(quant)


class _Bf16(RandomBlocks):
    """Numbers of one size, which the package does not make up."""

    def __init__(self, quant: Quant) -> None:
        if quant.name != "BF16":
            raise SystemExit(f"no random blocks of {quant.name}")
        low = RandomBlocks(quants()["Q8_0"])
        pool = bytearray(b"".join(low.take(POOL_BYTES)))
        pool[1::2] = bytes([_BF16_ABOUT_A_HUNDREDTH]) * (POOL_BYTES // 2)
        self._pool, self._at = memoryview(bytes(pool)), 0


if __name__ == "__main__":
    make_large_models(Path(sys.argv[1]), sys.argv[2:] or SHAPES)
