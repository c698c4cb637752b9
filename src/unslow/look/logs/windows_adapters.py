"""What Windows says of its graphics adapters in JSON: counters of memory, and the list that DirectX keeps."""

from collections.abc import Iterator
from typing import Any

import msgspec

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.values import Fact, Known, reported
from unslow.look.logs.gpu_builder import gpu_of
from unslow.look.logs.rocm_keys import with_free
from unslow.look.logs.windows_counters import Reading, adapter, gpus_of
from unslow.look.logs.windows_objects import entries, whole

SOURCE = "performance counters"
DIRECTX = "HKLM:\\SOFTWARE\\Microsoft\\DirectX"
_VENDORS = {0x10DE: "NVIDIA", 0x1002: "AMD", 0x8086: "Intel", 0x5143: "Qualcomm"}
_KINDS = {"DedicatedUsage": "vram_used_bytes", "SharedUsage": "shared_used_bytes"}
_WORD_BITS = 32
_LONGEST_NAME = 200


def parse_adapters(text: str) -> tuple[Gpu, ...]:
    """The adapters that hold memory, with name and sizes where DirectX lists them; none where it is no such JSON."""
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return ()
    answer = raw if isinstance(raw, dict) else {}
    readings = [*_readings(answer.get("adapters")), *_readings(answer.get("processes"))]
    luids = list(dict.fromkeys(adapter(reading.instance) for reading in readings))
    listed = {_luid(entry): entry for entry in entries(answer.get("directx"))}
    found = [(gpus_of(_of(readings, luid)), listed.get(luid, {})) for luid in luids]
    programs = _programs(answer.get("names"))
    return tuple(
        _with_programs(_named(index, gpus[0], entry), programs)
        for index, (gpus, entry) in enumerate(pair for pair in found if pair[0])
    )


def _programs(value: Any) -> dict[int, str]:
    """The names of processes by their numbers: the counters know only these."""
    named = ((whole(entry.get("Id")), entry.get("ProcessName")) for entry in entries(value))
    return {pid: name[:_LONGEST_NAME] for pid, name in named if pid and isinstance(name, str) and name}


def _with_programs(gpu: Gpu, programs: dict[int, str]) -> Gpu:
    processes = gpu.processes
    if not isinstance(processes, Known):
        return gpu
    named = [_with_name(process, programs.get(process.pid, "")) for process in processes.value]
    return msgspec.structs.replace(gpu, processes=reported(named, processes.source))


def _with_name(process: GpuProcess, name: str) -> GpuProcess:
    return msgspec.structs.replace(process, name=reported(name, "Get-Process")) if name else process


def _of(readings: list[Reading], luid: str) -> list[Reading]:
    return [reading for reading in readings if adapter(reading.instance) == luid]


def _readings(value: Any) -> Iterator[Reading]:
    for entry in entries(value):
        name = entry.get("Name")
        instance = name.lower().partition("_phys_")[0] if isinstance(name, str) else ""
        for key, kind in _KINDS.items():
            size = whole(entry.get(key))
            if instance and adapter(instance) and size is not None:
                yield Reading(SOURCE, instance, kind, size)


def _luid(entry: dict[str, Any]) -> str:
    """The adapter's number as the counters spell it: its high and its low word."""
    number = whole(entry.get("AdapterLuid")) or 0
    return f"luid_0x{number >> _WORD_BITS:08x}_0x{number & (2**_WORD_BITS - 1):08x}"


def _named(index: int, gpu: Gpu, entry: dict[str, Any]) -> Gpu:
    facts: dict[str, Fact[Any]] = {n: getattr(gpu, n) for n in ("vram_used_bytes", "shared_used_bytes", "processes")}
    name, total, shared = (
        entry.get("Description"),
        whole(entry.get("DedicatedVideoMemory")),
        entry.get("SharedSystemMemory"),
    )
    if isinstance(name, str) and name:
        facts["name"] = reported(name[:200], DIRECTX)
    if total is not None:
        facts["vram_total_bytes"] = reported(total, DIRECTX)
    if (lent := whole(shared)) is not None:
        facts["shared_total_bytes"] = reported(lent, DIRECTX)
    return gpu_of(index, _VENDORS.get(whole(entry.get("VendorId")) or 0, ""), DIRECTX, with_free(facts))
