"""Processors and memory of a Windows machine, where there is no /proc to read."""

import sys

from unslow.facts.machine import Machine
from unslow.look.logs.windows_objects import parse_objects
from unslow.look.system import LookError, System

TURN = 1  # see the probes' own page
_SCRIPT = (
    "@{os=@(Get-CimInstance Win32_OperatingSystem|"
    "Select-Object Caption,Version,TotalVisibleMemorySize,FreePhysicalMemory);"
    "cpu=@(Get-CimInstance Win32_Processor|Select-Object Name,NumberOfCores,NumberOfLogicalProcessors);"
    "ram=@(Get-CimInstance Win32_PhysicalMemory|Select-Object SMBIOSMemoryType,ConfiguredClockSpeed,Capacity);"
    "page=@(Get-CimInstance Win32_PageFileUsage|Select-Object AllocatedBaseSize,CurrentUsage)}"
    "|ConvertTo-Json -Depth 3 -Compress"
)
COMMAND = ("powershell", "-NoProfile", "-NonInteractive", "-Command", _SCRIPT)
_TIMEOUT_S = 20.0  # PowerShell starts in seconds where a virus scanner reads along


def read(system: System) -> Machine:
    """What Windows says of itself; nothing at all on another system."""
    try:
        if system.ask("sys.platform", lambda: sys.platform) != "win32":
            return Machine()
    except LookError:
        return Machine()
    done = system.run(COMMAND, timeout_s=_TIMEOUT_S)
    machine = parse_objects(done.stdout)
    if machine == Machine():
        raise LookError(f"Windows says nothing of itself: {done.stderr.strip()[:200]}")
    return machine
