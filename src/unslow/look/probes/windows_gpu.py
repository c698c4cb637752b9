"""Windows' graphics adapters: the memory of their own that is in use, and what they borrow from the machine."""

from unslow.facts.machine import Machine
from unslow.facts.values import reported
from unslow.look.logs.windows import COUNTERS_SOURCE, parse_adapters, powershell_command, read_windows_objects
from unslow.look.system import LookError, System

TURN = 1  # see the probes' own page
_OBJECTS = (
    "$c='Win32_PerfFormattedData_GPUPerformanceCounters_';"
    "$p=@(Get-CimInstance ($c+'GPUProcessMemory')|Where-Object{$_.DedicatedUsage+$_.SharedUsage -gt 0});"
    "@{adapters=@(Get-CimInstance ($c+'GPUAdapterMemory')|Select-Object Name,DedicatedUsage,SharedUsage);"
    "processes=@($p|Select-Object Name,DedicatedUsage,SharedUsage);"
    "names=@(Get-Process -Id @($p|ForEach-Object{[int]($_.Name -split '_')[1]}) -ErrorAction SilentlyContinue|"
    "Select-Object Id,ProcessName);"
    "directx=@(Get-ItemProperty 'HKLM:\\SOFTWARE\\Microsoft\\DirectX\\*'|"
    "Select-Object Description,AdapterLuid,DedicatedVideoMemory,SharedSystemMemory,VendorId)}"
)
COMMAND = powershell_command(_OBJECTS)


def read(system: System) -> Machine:
    """The adapters that hold memory; nothing at all on another system."""
    done = read_windows_objects(system, _OBJECTS)
    if done is None:
        return Machine()
    gpus = parse_adapters(done.stdout)
    if not gpus:
        raise LookError(f"the counters of GPU memory say nothing: {done.stderr.strip()[:200]}")
    return Machine(gpus=reported(gpus, COUNTERS_SOURCE))
