"""A Windows machine in a built world: what its management objects and its performance counters answer."""

import json
from typing import NamedTuple

from lab.built_machines.world import World

from unslow.facts.values import GIB, MIB
from unslow.look.logs.windows import powershell_command
from unslow.look.probes import windows_gpu, windows_machine

VENDORS = {"NVIDIA": 4318, "AMD": 4098, "Intel": 32902}


class Adapter(NamedTuple):
    """A GPU as `GPU Adapter Memory` and DirectX tell of it."""

    name: str
    vendor: str
    memory_gib: float
    dedicated_mib: int
    shared_mib: int
    process_mib: tuple[int, int] = (0, 0)
    """Of the runtime: dedicated, shared."""
    program: str = "llama-server"


def windows(*adapters: Adapter, pid: int = 9120, memory_gib: int = 32) -> World:
    """The machine with its adapters, without a runtime on it."""
    luids = [0xA6CB + n for n in range(len(adapters))]
    names = [f"luid_0x00000000_0x0000{luid:X}_phys_0" for luid in luids]
    gpus = {
        "adapters": [
            {"Name": n, "DedicatedUsage": a.dedicated_mib * MIB, "SharedUsage": a.shared_mib * MIB}
            for n, a in zip(names, adapters, strict=True)
        ],
        "processes": [
            {"Name": f"pid_{pid}_{n}", "DedicatedUsage": a.process_mib[0] * MIB, "SharedUsage": a.process_mib[1] * MIB}
            for n, a in zip(names, adapters, strict=True)
            if a.process_mib[0]
        ],
        "names": [{"Id": pid, "ProcessName": a.program} for a in adapters if a.process_mib[0]],
        "directx": [
            {
                "Description": a.name,
                "AdapterLuid": luid,
                "DedicatedVideoMemory": round(a.memory_gib * GIB),
                "SharedSystemMemory": memory_gib * GIB // 2,
                "VendorId": VENDORS[a.vendor],
            }
            for luid, a in zip(luids, adapters, strict=True)
        ],
    }
    commands = {
        powershell_command(windows_gpu.OBJECTS): gpus,
        powershell_command(windows_machine.OBJECTS): _machine(memory_gib),
    }
    return World(
        commands={" ".join(words): json.dumps(answer) for words, answer in commands.items()},
        asks={"sys.platform": "win32", "home": "C:\\Users\\user"},
    )


def _machine(memory_gib: int) -> dict[str, object]:
    module = {"SMBIOSMemoryType": 26, "ConfiguredClockSpeed": 3200, "Capacity": memory_gib * GIB // 2}
    system = {"Caption": "Microsoft Windows 11 Pro", "Version": "10.0.26100"}
    return {
        "os": system | {"TotalVisibleMemorySize": memory_gib * 2**20, "FreePhysicalMemory": memory_gib * 2**19},
        "cpu": [{"Name": "AMD Ryzen 7 5800X 8-Core Processor", "NumberOfCores": 8, "NumberOfLogicalProcessors": 16}],
        "ram": [module, module],
        "page": {"AllocatedBaseSize": 4864, "CurrentUsage": 120},
        "disk": [
            {"DeviceId": "0", "MediaType": "SSD", "BusType": "NVMe"},
            {"DeviceId": "1", "MediaType": "HDD", "BusType": "SATA"},
        ],
        "part": [{"Drive": "C", "DiskNumber": 0}, {"Drive": "D", "DiskNumber": 1}],
    }
