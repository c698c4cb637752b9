"""How a model lies on several GPUs, and what each of them holds, could hold, and reads in a second."""

from typing import NamedTuple

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.bandwidth import device_bandwidth
from unslow.think.adapt.vram import gpus_of

TENSOR_SPLITS = frozenset({"row", "tensor"})


class Share(NamedTuple):
    """One GPU by its number: the model's bytes on it, what is left free there, what it reads in a second."""

    gpu: int
    model_bytes: float
    free_bytes: float
    bytes_per_s: float


def splits_tensors(case: Case) -> bool | None:
    """Whether every layer is cut in parts, one for each GPU; None where nothing tells how the model is split."""
    parallel, mode = case.runtime.tensor_parallel, case.runtime.split_mode
    if isinstance(parallel, Known) and parallel.value > 1:
        return True
    if isinstance(mode, Known):
        return mode.value in TENSOR_SPLITS
    return False if isinstance(parallel, Known) else None


def has_fast_links(case: Case) -> bool | None:
    """Whether the GPUs have links of their own (NVLink); None where neither driver nor catalogue tells."""
    answers = [_linked(gpu) for gpu in gpus_of(case)]
    if not answers or None in answers:
        return None
    return all(answers)


def _linked(gpu: Gpu) -> bool | None:
    if isinstance(gpu.nvlinks_active, Known):
        return gpu.nvlinks_active.value > 0
    known = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    return False if known and not known.link_bytes_per_s else None


def shares(case: Case) -> list[Share]:
    """What each GPU of a split holds, by the number at the end of its buffers' names; empty where they have none."""
    gpus = {g.index: g for g in gpus_of(case)}
    held: dict[int, float] = {}
    for buffer in case.runtime.buffers.value_or([]):
        digits = buffer.device[len(buffer.device.rstrip("0123456789")) :]
        if buffer.on_gpu and buffer.kind == "model" and digits and int(digits[:4]) in gpus:
            held[int(digits[:4])] = held.get(int(digits[:4]), 0.0) + buffer.bytes
    return [
        Share(number, held[number], gpus[number].vram_free_bytes.need(), device_bandwidth(gpus[number])[0])
        for number in sorted(held)
    ]
