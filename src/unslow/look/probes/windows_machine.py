"""Processors, memory and disks of a Windows machine, where there is no /proc to read."""

from unslow.facts.machine import Machine
from unslow.look.logs.windows import parse_objects, read_windows_objects
from unslow.look.system import LookError, System

SYSTEMS = ("Windows",)
TURN = 1  # see the probes' own page
OBJECTS = (
    "@{os=@(Get-CimInstance Win32_OperatingSystem|"
    "Select-Object Caption,Version,TotalVisibleMemorySize,FreePhysicalMemory);"
    "cpu=@(Get-CimInstance Win32_Processor|Select-Object Name,NumberOfCores,NumberOfLogicalProcessors);"
    "ram=@(Get-CimInstance Win32_PhysicalMemory|Select-Object SMBIOSMemoryType,ConfiguredClockSpeed,Capacity);"
    "page=@(Get-CimInstance Win32_PageFileUsage|Select-Object AllocatedBaseSize,CurrentUsage);"
    "disk=@(Get-PhysicalDisk -ErrorAction SilentlyContinue|Select-Object DeviceId,MediaType,BusType);"
    "part=@(Get-Partition -ErrorAction SilentlyContinue|Where-Object DriveLetter|"
    "Select-Object @{n='Drive';e={[string]$_.DriveLetter}},DiskNumber)}"
)


def read(system: System) -> Machine:
    """What Windows says of itself."""
    done = read_windows_objects(system, OBJECTS)
    if done is None:
        return Machine()
    machine = parse_objects(done.stdout)
    if machine == Machine():
        raise LookError(f"Windows returned nothing: {done.stderr.strip()[:200]}")
    return machine
