"""Windows' graphics adapters: the memory of their own that is in use, and what they borrow from the machine."""

import sys

from unslow.facts.machine import Machine
from unslow.facts.values import Absence, reported
from unslow.look.logs.windows_adapters import SOURCE, parse_adapters
from unslow.look.system import LookError, System

TURN = 1  # see the probes' own page
# Asked as objects: the counters that `typeperf` and Get-Counter take are spelled in the language of the system.
_SCRIPT = (
    "$c='Win32_PerfFormattedData_GPUPerformanceCounters_';"
    "@{adapters=@(Get-CimInstance ($c+'GPUAdapterMemory')|Select-Object Name,DedicatedUsage,SharedUsage);"
    "processes=@(Get-CimInstance ($c+'GPUProcessMemory')|Where-Object{$_.DedicatedUsage+$_.SharedUsage -gt 0}|"
    "Select-Object Name,DedicatedUsage,SharedUsage);"
    "directx=@(Get-ItemProperty 'HKLM:\\SOFTWARE\\Microsoft\\DirectX\\*'|"
    "Select-Object Description,AdapterLuid,DedicatedVideoMemory,SharedSystemMemory,VendorId)}"
    "|ConvertTo-Json -Depth 3 -Compress"
)
COMMAND = ("powershell", "-NoProfile", "-NonInteractive", "-Command", _SCRIPT)
_TIMEOUT_S = 20.0  # PowerShell starts in seconds where a virus scanner reads along


def read(system: System) -> Machine:
    """The adapters that hold memory; nothing at all on another system."""
    try:
        if system.ask("sys.platform", lambda: sys.platform) != "win32":
            return Machine()
    except LookError:
        return Machine()
    done = system.run(COMMAND, timeout_s=_TIMEOUT_S)
    gpus = parse_adapters(done.stdout)
    if not gpus:
        raise LookError(f"the counters of GPU memory say nothing: {done.stderr.strip()[:200]}", Absence.FAILED)
    return Machine(gpus=reported(gpus, SOURCE))
