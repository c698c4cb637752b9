"""Models of random weights, each written by several processes at once: the largest has 42 GB.

python -m lab.plan_gpu.making FOLDER MODEL ...
"""

import os
import sys
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from lab.faults.large_models import _blocks, _keys, _ones
from lab.plan_gpu.cases import shape_of

from unslow.catalog.quants import quants, quants_by_ggml_type
from unslow.look.engine.made_up_models import RandomBlocks, TensorPlan, encoded_header, padding
from unslow.think.blueprints import made_up


class Placed(NamedTuple):
    """A tensor and where it begins in its file."""

    plan: TensorPlan
    offset: int


def planned(model: str) -> tuple[bytes, list[Placed], int]:
    """The header, every tensor at its place, and the size of the whole."""
    blueprint = made_up(*shape_of(model))
    plans = [TensorPlan(t.name, t.shape, quants()[t.type].ggml_type, t.bytes) for t in blueprint.tensors]
    header = encoded_header(_keys(blueprint), plans)
    placed, at = [], len(header)
    for plan in plans:
        placed.append(Placed(plan, at))
        at += plan.bytes + padding(plan.bytes)
    return header, placed, at


def make(model: str, folder: Path, makers: int) -> Path:
    """The file, written where it is not there yet; it takes its name when it is complete."""
    path = folder / f"{model}.gguf"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    header, placed, size = planned(model)
    part.write_bytes(header)
    os.truncate(part, size)
    with get_context("fork").Pool(makers) as pool:
        pool.map(_fill, ((part, share) for share in _shares(placed, makers)), chunksize=1)
    part.replace(path)
    return path


def _shares(placed: list[Placed], count: int) -> Iterator[list[Placed]]:
    """Tensors dealt out by size, the largest first, so that nobody ends much later than the others."""
    largest = sorted(placed, key=lambda one: -one.plan.bytes)
    return (largest[number::count] for number in range(count))


def _fill(work: tuple[Path, list[Placed]]) -> None:
    path, share = work
    pools: dict[int, RandomBlocks] = {}
    with path.open("r+b", buffering=0) as file:
        for plan, offset in share:
            if plan.ggml_type not in pools:
                pools[plan.ggml_type] = _blocks(quants_by_ggml_type()[plan.ggml_type])
            file.seek(offset)
            for piece in _ones(plan) or pools[plan.ggml_type].take(plan.bytes):
                file.write(piece)


def make_all(models: list[str], folder: Path, makers: int) -> None:
    """Every model once, and how long it took."""
    for model in dict.fromkeys(models):
        began = time.monotonic()
        path = make(model, folder, makers)
        print(f"{path.name}: {path.stat().st_size / 1e9:.2f} GB, {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    make_all(sys.argv[2:], Path(sys.argv[1]), os.cpu_count() or 1)
