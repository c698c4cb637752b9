"""The GPUs of a plain folder: described while idle, sampled while loaded."""

from collections.abc import Sequence
from typing import Any

import msgspec

from unslow.facts.machine import Gpu
from unslow.facts.merge import overlaid
from unslow.facts.run import GpuUnderLoad
from unslow.facts.values import Fact, Known, Unknown, estimated, not_found, not_supported, reported
from unslow.look.logs.nvidia_gpu import reasons
from unslow.look.logs.nvidia_smi import parse_gpus
from unslow.look.logs.nvidia_smi_csv import gpus_of, parse_compute_apps, parse_rows
from unslow.look.logs.nvidia_smi_series import summarise_series
from unslow.look.plain_folder.several_gpus import by_gpu, numbered

DESCRIPTION = "nvidia_smi_q.txt"
SERIES = "nvidia_smi_query.csv"
PROCESSES = "nvidia_smi_compute_apps.csv"
# what the description says of these was true with nothing loaded, and is false under load
_IDLE = ("vram_used_bytes", "vram_free_bytes", "busy", "memory_busy", "clock_hz", "memory_clock_hz", "temperature_c",
         "memory_temperature_c", "temperature_margin_c", "power_w", "event_reasons", "event_reason_bits", "processes",
         "performance_state", "pcie_transmit_bytes_per_s", "pcie_receive_bytes_per_s")  # fmt: skip


def gpus_under_load(description: Fact[str], series: Fact[str], apps: Fact[str], machine: str) -> Fact[tuple[Gpu, ...]]:
    """Every GPU that any of the files tells of; machine.txt stands in where nvidia-smi was not asked in full."""
    rows = parse_rows(series.value_or(""))
    described = parse_gpus(description.value_or("")) or parse_gpus(machine) or gpus_of(rows, SERIES)
    if not described:
        return not_found("no file of this folder tells of a GPU")
    of_each = numbered(rows, len(described))
    loaded = {summary.index: summary for summary in summarise_series(of_each, source=SERIES)}
    found = [loaded.get(gpu.index) for gpu in described]
    listed = _processes(apps, found)
    each = zip(described, found, listed, strict=True)
    gpus = tuple(_loaded(_without_idle(gpu), summary, processes) for gpu, summary, processes in each)
    return reported(gpus, f"{DESCRIPTION}, {SERIES}")


def gpus_described(description: Fact[str], machine: str) -> int:
    """How many GPUs there are by what nvidia-smi says of them; 0 where it was not asked."""
    return len(parse_gpus(description.value_or("")) or parse_gpus(machine))


def _without_idle(gpu: Gpu) -> Gpu:
    why = not_found(f"{DESCRIPTION} was taken with nothing loaded")
    return msgspec.structs.replace(gpu, **dict.fromkeys(_IDLE, why))


def _loaded(gpu: Gpu, summary: GpuUnderLoad | None, processes: Fact[Any]) -> Gpu:
    gpu = msgspec.structs.replace(gpu, processes=processes)
    if summary is None:
        return gpu
    facts: dict[str, Fact[Any]] = {
        "busy": summary.busy,
        "memory_busy": summary.memory_busy,
        "clock_hz": summary.clock_hz,
        "temperature_c": summary.temperature_max_c,
        "power_w": summary.power_max_w,
        "pcie_generation": summary.pcie_generation_max_seen,
        "pcie_width": summary.pcie_width_max_seen,
        "vram_used_bytes": summary.vram_used_max_bytes,
        "vram_free_bytes": _free(gpu, summary.vram_used_max_bytes),
    }
    if isinstance(summary.event_reasons, Known):
        facts |= reasons(summary.event_reasons.value, SERIES)
    return overlaid(gpu, Gpu(index=gpu.index, **facts))


def _free(gpu: Gpu, used: Fact[int]) -> Fact[int]:
    """What is left; the driver's own reserve is neither free nor in use."""
    if isinstance(used, Unknown) or isinstance(gpu.vram_total_bytes, Unknown):
        return not_found(f"{SERIES} does not tell the memory in use")
    free = gpu.vram_total_bytes.value - gpu.vram_reserved_bytes.value_or(0) - used.value
    return estimated(max(0, free), f"{DESCRIPTION}: total less reserved, less the most used in {SERIES}")


def _processes(processes: Fact[str], loaded: Sequence[GpuUnderLoad | None]) -> list[Fact[Any]]:
    """The processes of each GPU; the table does not say on which of several they are, but their memory can."""
    listed = processes if isinstance(processes, Unknown) else parse_compute_apps(processes.value)
    if isinstance(listed, Unknown) or len(loaded) == 1:
        return [listed] * len(loaded)
    used = [summary.vram_used_max_bytes.value_or(None) if summary else None for summary in loaded]
    known = [size for size in used if size is not None]
    shared = by_gpu(listed.value, known) if len(known) == len(used) else None
    if shared is None:
        return [not_supported(f"{PROCESSES} does not say on which GPU a process is")] * len(loaded)
    return [reported(each, f"{PROCESSES}, by the memory in use in {SERIES}") for each in shared]
