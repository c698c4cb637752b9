"""Who holds the memory now: weights, cache and the rest of the server, others by name, and what is free."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unslow.facts.machine import Gpu
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError
from unslow.think.adapt.shape import read_shape
from unslow.think.view.report import MemoryBar, MemoryPart, PartKind

_KINDS: dict[str, tuple[PartKind, str]] = {
    "model": ("weights", "weights"),
    "kv": ("kv", "KV cache"),
    "state": ("kv", "KV cache"),
    "compute": ("compute", "buffers"),
    "output": ("compute", "buffers"),
}
_OWN_NAMES: dict[PartKind, str] = dict(_KINDS.values())
UNNAMED, NOT_TOLD = "driver and others", "not told whose"
OTHERS, FREE, REST = "others", "free", "server itself"
_NUMBER = re.compile(r"(\d+)\D*$")
MOST_STRANGERS = 4


class RamNow(NamedTuple):
    """The host's memory as it is read now; None where it is not."""

    total_bytes: float | None = None
    available_bytes: float | None = None
    own_bytes: float | None = None


def bars_of(
    case: Case, vram_used: Mapping[int, float], ram: RamNow, laid: Sequence[MemoryBar] = ()
) -> tuple[MemoryBar, ...]:
    """A bar for each GPU whose size is known, and one for the host.

    `laid` are the bars of the model as it is laid out: what is told of a server that does not say what it allocated.
    """
    gpus = [gpu for gpu in case.machine.gpus.value_or(()) if isinstance(gpu.vram_total_bytes, Known)]
    on_gpus, on_host = _laid_parts(case, laid, len(gpus))
    bars = [_gpu_bar(case, gpu, vram_used, own, alone=len(gpus) == 1) for gpu, own in zip(gpus, on_gpus, strict=True)]
    host = _host_bar(case, ram, on_host)
    return (*bars, *([host] if host else []))


def _laid_parts(case: Case, laid: Sequence[MemoryBar], gpus: int) -> tuple[list[list[MemoryPart]], list[MemoryPart]]:
    """The server's parts on each GPU and on the host; none where it says itself, or where not all finds its room."""
    on_gpus, host = [bar for bar in laid if not bar.is_host], [bar for bar in laid if bar.is_host]
    whole = all(bar.fits for bar in laid) and not any(part.wanted_bytes for bar in laid for part in bar.parts)
    if isinstance(case.runtime.buffers, Known) or not whole or len(on_gpus) != gpus:
        return [[] for _ in range(gpus)], []
    return [_named(bar) for bar in on_gpus], [part for bar in host for part in _named(bar)]


def _named(bar: MemoryBar) -> list[MemoryPart]:
    """What of a laid out bar is the server's."""
    own = (part for part in bar.parts if part.kind in _OWN_NAMES)
    return [MemoryPart(kind=part.kind, name=_OWN_NAMES[part.kind], bytes=part.bytes) for part in own]


def _gpu_bar(case: Case, gpu: Gpu, vram_used: Mapping[int, float], laid: list[MemoryPart], *, alone: bool) -> MemoryBar:
    capacity, pid = int(gpu.vram_total_bytes.need()), case.runtime.pid.value_or(None)
    buffers = [b for b in case.runtime.buffers.value_or([]) if b.on_gpu and (alone or _number(b) == gpu.index)]
    used = int(vram_used.get(gpu.index, gpu.vram_used_bytes.value_or(0)))
    strangers = _strangers(gpu, pid)
    left = used - sum(part.bytes for part in strangers)
    own = _own(buffers) or (laid if sum(part.bytes for part in laid) <= left else [])
    parts = [*own, *_beside(own, gpu, pid), *strangers]
    rest = used - sum(part.bytes for part in parts)
    if rest > 0:
        # in containers the driver does not list the server's own process
        parts.append(MemoryPart(kind="reserve", name=UNNAMED if len(parts) > len(strangers) else NOT_TOLD, bytes=rest))
    return MemoryBar(name=gpu.name.value_or("GPU"), capacity_bytes=capacity, parts=_filled(parts, capacity))


def _beside(own: list[MemoryPart], gpu: Gpu, pid: int | None) -> list[MemoryPart]:
    """What the driver says that the server holds beyond its parts: its state on the GPU, or all where none is told."""
    held = sum(p.vram_bytes.value_or(0) for p in gpu.processes.value_or([]) if p.pid == pid)
    more = held - sum(part.bytes for part in own)
    return [MemoryPart(kind="compute", name=REST, bytes=more)] if more > 0 else []


def _number(buffer: Buffer) -> int:
    """The number in the runtime's name of a device, such as CUDA1."""
    found = _NUMBER.search(buffer.device)
    return int(found[1]) if found else 0


def _own(buffers: list[Buffer]) -> list[MemoryPart]:
    sums: dict[tuple[PartKind, str], int] = {}
    for buffer in buffers:
        sums[_KINDS[buffer.kind]] = sums.get(_KINDS[buffer.kind], 0) + buffer.bytes
    return [MemoryPart(kind=kind, name=name, bytes=size) for (kind, name), size in sums.items() if size]


def _strangers(gpu: Gpu, own: int | None) -> list[MemoryPart]:
    """Other processes that the driver lists, the largest first; those beyond a few together."""
    others = [p for p in gpu.processes.value_or([]) if p.pid != own and p.vram_bytes.value_or(0)]
    others.sort(key=lambda p: -p.vram_bytes.value_or(0))
    named = [_stranger(p.name.value_or(f"process {p.pid}"), p.vram_bytes.need()) for p in others[:MOST_STRANGERS]]
    rest = sum(p.vram_bytes.need() for p in others[MOST_STRANGERS:])
    return [*named, *([_stranger(OTHERS, rest)] if rest else [])]


def _stranger(name: str, size: int) -> MemoryPart:
    return MemoryPart(kind="stranger", name=name.rpartition("/")[2] or name, bytes=size)


def _host_bar(case: Case, ram: RamNow, laid: list[MemoryPart]) -> MemoryBar | None:
    """Weights that are mapped from their file count as free for the kernel; here they are the server's."""
    total, available = ram.total_bytes, ram.available_bytes
    if total is None or available is None:
        return None
    own = int(ram.own_bytes or 0)
    left, parts = own, []
    for part in laid or _host_parts(case):
        size = min(part.bytes, left)
        left -= size
        if size:
            parts.append(MemoryPart(kind=part.kind, name=part.name, bytes=size))
    if left > 0:
        parts.append(MemoryPart(kind="compute", name=REST, bytes=left))
    mapped = sum(part.bytes for part in parts if part.kind == "weights")
    others = int(total - available) - (own - mapped)
    if others > 0:
        parts.append(MemoryPart(kind="stranger", name=OTHERS, bytes=others))
    return MemoryBar(name="RAM", is_host=True, capacity_bytes=int(total), parts=_filled(parts, int(total)))


def _host_parts(case: Case) -> list[MemoryPart]:
    """By the runtime's account; without one, the model's size where no GPU could hold it."""
    buffers = case.runtime.buffers
    if isinstance(buffers, Known):
        return _own([buffer for buffer in buffers.value if not buffer.on_gpu])
    if case.machine.gpus.value_or(()):
        return []
    kinds: tuple[tuple[PartKind, str, int], ...] = (
        ("weights", "weights", case.model.weights_bytes.value_or(0)),
        ("kv", "KV cache", _cache_bytes(case)),
    )
    return [MemoryPart(kind=kind, name=name, bytes=size) for kind, name, size in kinds if size]


def _cache_bytes(case: Case) -> int:
    """By the runtime's account, else as large as the context makes it; nothing where that is not known."""
    if isinstance(case.runtime.kv_bytes, Known):
        return case.runtime.kv_bytes.value
    try:
        return round(read_shape(case).kv_bytes_per_token * case.runtime.context_length.need())
    except MissingFactError:
        return 0


def _filled(parts: list[MemoryPart], capacity: int) -> tuple[MemoryPart, ...]:
    """The parts and what is free; where they are more than there is, by how much."""
    free = capacity - sum(part.bytes for part in parts)
    if free >= 0:
        return (*parts, MemoryPart(kind="free", name=FREE, bytes=free))
    return (*parts, MemoryPart(kind="lacking", name="more than there is", bytes=-free))
