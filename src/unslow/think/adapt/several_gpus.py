"""How a model lies on several GPUs, and what each of them holds, could hold, and reads in a second."""

from typing import NamedTuple

import msgspec

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.units import MIB
from unslow.facts.values import Absence, Known
from unslow.think.adapt.bandwidth import device_bandwidth
from unslow.think.adapt.gpu_match import gpus_named, number_of
from unslow.think.adapt.runtime_family import runs_paged
from unslow.think.adapt.vram import gpus_of, gpus_used, seen_gpus
from unslow.think.speed.chips import has_links

TENSOR_SPLITS = frozenset({"row", "tensor"})
MARGIN_BYTES = 512 * MIB
"""What a split that fills a GPU should leave free there."""
BRIDGED = 2
"""GPUs that one bridge joins: of more cards with bridges, some are joined by PCIe alone."""


class Crew(NamedTuple):
    """The GPUs that work on one token: how many, and whether each has a part of every layer."""

    gpus: int
    cuts_layers: bool


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


def crew_of(case: Case, used: int) -> Crew:
    """Those of so many GPUs in use that a token goes over: an engine with several copies of a model uses one of them.

    llama.cpp's own ways to cut layers are not told apart here: what they cost is held against whole layers.
    """
    tensor, pipeline = case.runtime.tensor_parallel, case.runtime.pipeline_parallel.value_or(1)
    if not isinstance(tensor, Known):
        return Crew(max(1, used), cuts_layers=False)
    if tensor.value > 1:  # stages of a pipeline take turns, so a token is on one group of these at a time
        return Crew(tensor.value, cuts_layers=True)
    return Crew(max(1, min(used, pipeline)), cuts_layers=False)


def copies_of(case: Case) -> int:
    """How many copies of the model an engine has, each on GPUs of its own: requests share the steps of one of them."""
    used, tensor = len(gpus_used(case)), case.runtime.tensor_parallel
    if not runs_paged(case) or not isinstance(tensor, Known):
        return 1
    return max(1, used // max(1, tensor.value * case.runtime.pipeline_parallel.value_or(1)))


def has_fast_links(case: Case) -> bool | None:
    """Whether each GPU in use has a link of its own to each (NVLink); None where neither driver nor catalogue tells."""
    gpus = gpus_used(case)
    answers = [_linked(gpu) for gpu in gpus]
    if not answers or None in answers:
        return None
    return all(answers) and not (len(gpus) > BRIDGED and any(map(_has_bridge, gpus)))


def _has_bridge(gpu: Gpu) -> bool:
    """Whether it is a card whose links go over a bridge, which joins pairs, and not a module on a board."""
    known = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    return known is not None and not has_links(known)


def _linked(gpu: Gpu) -> bool | None:
    if isinstance(gpu.nvlinks_active, Known):
        return gpu.nvlinks_active.value > 0
    if gpu.nvlinks_active.absence is Absence.NOT_SUPPORTED:
        return False  # so answers the driver of a card without the connector
    known = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    return False if known and not known.link_bytes_per_s else None


def shares(case: Case) -> list[Share]:
    """What each GPU of a split holds, by the number at the end of its buffers' names; empty where they have none."""
    held: dict[int, float] = {}
    for buffer in case.runtime.buffers.value_or([]):
        held[_number(buffer)] = held.get(_number(buffer), 0.0) + buffer.bytes
    gpus = {number: gpu for number in sorted(held) if (gpu := gpu_numbered(case, number)) is not None}
    return [
        Share(number, held[number], gpu.vram_free_bytes.need(), device_bandwidth(gpu)[0])
        for number, gpu in gpus.items()
    ]


def gpu_numbered(case: Case, number: int) -> Gpu | None:
    """The GPU that the runtime gives a number: by the device that it lists under it, else by the driver's number."""
    seen, gpus = seen_gpus(case), gpus_of(case)
    listed = [device for device in seen if device.description and number_of(device.name) == number]
    named = gpus_named(case, listed[:1], seen, gpus)
    return named[0] if len(named) == 1 else next((gpu for gpu in gpus if gpu.index == number), None)


def _number(buffer: Buffer) -> int:
    """Of the GPU that holds a part of the model, by the end of the buffer's name; -1 of any other buffer."""
    number = number_of(buffer.device)
    return number if number is not None and buffer.on_gpu and buffer.kind == "model" else -1


def filled(parts: list[Share]) -> list[Share]:
    """The same bytes, on the fastest GPUs first, as far as their free memory goes."""
    left = sum(p.model_bytes for p in parts)
    placed: dict[int, float] = {}
    for part in sorted(parts, key=lambda p: -p.bytes_per_s):
        placed[part.gpu] = min(left, part.model_bytes + max(0.0, part.free_bytes - MARGIN_BYTES))
        left -= placed[part.gpu]
    return [p._replace(model_bytes=placed[p.gpu]) for p in parts]


def split_anew(case: Case) -> list[Buffer]:
    """The runtime's buffers as they would be with the fastest GPUs filled first; one that holds nothing is gone."""
    best = {p.gpu: int(p.model_bytes) for p in filled(shares(case))}
    first = {
        number: buffer for buffer in reversed(case.runtime.buffers.value_or([])) if (number := _number(buffer)) in best
    }
    others = [b for b in case.runtime.buffers.value_or([]) if _number(b) not in best]
    return [msgspec.structs.replace(b, bytes=best[n]) for n, b in sorted(first.items()) if best[n]] + others
