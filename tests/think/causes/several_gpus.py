"""Cases with two GPUs."""

from typing import Any

from cases import gpu_case, r, with_facts

from unslow.facts.machine import Gpu
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB

CARDS = ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090")


def two_gpus(
    names: tuple[str, str] = CARDS,
    held: tuple[float, float] = (2.3, 2.3),
    free: tuple[float, float] = (20.0, 20.0),
    **facts: Any,
) -> Case:
    """The usual model over two GPUs: what each holds of it in GiB, and what is free there."""
    gpus = tuple(
        Gpu(
            index=i, vendor=r("NVIDIA"), name=r(names[i]), vram_total_bytes=r(24 * GIB), nvlinks_active=r(0),
            vram_free_bytes=r(int(free[i] * GIB)), compute_capability=r("8.9"), processes=r([]),
        )
        for i in (0, 1)
    )  # fmt: skip
    buffers = [Buffer(device=f"CUDA{i}", kind="model", bytes=int(held[i] * GIB), on_gpu=True) for i in (0, 1)]
    case = with_facts(gpu_case(), {"machine.gpus": r(gpus), "runtime.memory.buffers": buffers})
    return with_facts(case, facts)
