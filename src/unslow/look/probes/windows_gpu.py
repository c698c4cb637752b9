"""Windows' graphics adapters: the memory of their own that is in use, and what they borrow from the machine."""

from unslow.facts.machine import Machine
from unslow.facts.values import reported_fact
from unslow.look.logs.windows import COUNTERS_SOURCE, parse_adapters, read_windows_objects
from unslow.look.system import LookError, System

SYSTEMS = ("Windows",)
TURN = 1  # see the probes' own page
OBJECTS = (
    "$c='Win32_PerfFormattedData_GPUPerformanceCounters_';"
    "$p=@(Get-CimInstance ($c+'GPUProcessMemory')|Where-Object{$_.DedicatedUsage+$_.SharedUsage -gt 0});"
    "@{adapters=@(Get-CimInstance ($c+'GPUAdapterMemory')|Select-Object Name,DedicatedUsage,SharedUsage);"
    "processes=@($p|Select-Object Name,DedicatedUsage,SharedUsage);"
    "names=@(Get-Process -Id @($p|ForEach-Object{[int]($_.Name -split '_')[1]}) -ErrorAction SilentlyContinue|"
    "Select-Object Id,ProcessName);"
    "directx=@(Get-ItemProperty 'HKLM:\\SOFTWARE\\Microsoft\\DirectX\\*'|"
    "Select-Object Description,AdapterLuid,DedicatedVideoMemory,SharedSystemMemory,VendorId)}"
)


def read(system: System) -> Machine:
    """The adapters that hold memory."""
    done = read_windows_objects(system, OBJECTS)
    if done is None:
        return Machine()
    gpus = parse_adapters(done.stdout)
    if not gpus:
        raise LookError(f"the GPU memory counters returned nothing: {done.stderr.strip()[:200]}")
    return Machine(gpus=reported_fact(gpus, COUNTERS_SOURCE))
