"""Which GPU a row or a process belongs to, in tables of several GPUs that do not say so.

nvidia-smi goes through the GPUs in their order, at every sample and for processes alike.
"""

from collections.abc import Sequence
from functools import cache

from unslow.facts.machine import GpuProcess
from unslow.facts.units import MIB
from unslow.facts.values import Known
from unslow.look.logs.nvidia_smi_csv import Row

_NAMES = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
MOST_PROCESSES = 64
MORE_LISTED, UNLISTED = 64 * MIB, 1024 * MIB
"""Bytes by which processes may exceed what is in use, as both are read apart, and what a driver and a display take."""


def numbered(rows: Sequence[Row], gpus: int) -> list[Row]:
    """The rows of a series with the number of their GPU, where several take turns and no column names them."""
    if gpus < 2 or len(rows) < gpus or any(name in rows[0] for name in _NAMES):  # noqa: PLR2004 (several)
        return list(rows)
    whole = len(rows) - len(rows) % gpus  # the last sample may have been cut
    return [{**row, "index": str(number % gpus)} for number, row in enumerate(rows[:whole])]


def by_gpu(processes: Sequence[GpuProcess], used: Sequence[int]) -> list[list[GpuProcess]] | None:
    """The processes of each GPU, by what is in use on each; None where no way to share them out fits."""
    sizes = [p.vram_bytes.value if isinstance(p.vram_bytes, Known) else None for p in processes]
    if len(processes) > MOST_PROCESSES or None in sizes:
        return None
    pids = [p.pid for p in processes]

    @cache
    def best(first: int, gpu: int) -> tuple[float, tuple[int, ...]]:
        """How far the rest is off at least, and where the part of each GPU from this one on ends."""
        if gpu == len(used):
            return (0.0 if first == len(pids) else float("inf")), ()
        ways = [(float("inf"), (len(pids),) * (len(used) - gpu))]
        for end in range(first, len(pids) + 1):
            if len(set(pids[first:end])) < end - first:
                break  # a process is listed once for each GPU
            apart = used[gpu] - sum(size or 0 for size in sizes[first:end])
            if -MORE_LISTED <= apart <= UNLISTED:
                after, ends = best(end, gpu + 1)
                ways.append((abs(apart) + after, (end, *ends)))
        return min(ways)

    off, ends = best(0, 0)
    if off == float("inf"):
        return None
    starts = (0, *ends[:-1])
    return [list(processes[start:end]) for start, end in zip(starts, ends, strict=True)]
