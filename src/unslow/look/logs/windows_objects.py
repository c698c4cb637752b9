"""What Windows' own objects say of the machine, in JSON: operating system, processors, memory, page file, disks."""

from collections.abc import Iterator
from typing import Any

import msgspec

from unslow.facts.bounded import bounded
from unslow.facts.machine import Cpu, Disk, Machine, Memory, System
from unslow.facts.units import KIB, MIB
from unslow.facts.values import NOT_LOOKED, Fact, estimated, reported

SOURCE = "Get-CimInstance"
# Types of memory in the SMBIOS specification, section 7.18.2
_TYPES = {24: "DDR3", 26: "DDR4", 29: "LPDDR3", 30: "LPDDR4", 34: "DDR5", 35: "LPDDR5"}
_LONGEST_NUMBER = 18
_DISKS = "Get-PhysicalDisk"
_MOST_DISKS = 64
# MSFT_PhysicalDisk: MediaType 3 is a hard disk, 4 an SSD; BusType 11 is SATA, 17 NVMe
_HARD_DISK, _SOLID_STATE, _SATA, _NVME = ("hdd", "3"), ("ssd", "4"), ("sata", "11"), ("nvme", "17")


def parse_objects(text: str) -> Machine:
    """The machine; facts stay unlooked-for where the text is no such JSON."""
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return Machine()
    answer = raw if isinstance(raw, dict) else {}
    kinds = {name: list(entries(answer.get(name))) for name in ("os", "cpu", "ram", "page", "disk", "part")}
    os = kinds["os"][0] if kinds["os"] else {}
    system = System(name=_word(os.get("Caption")), version=_word(os.get("Version")))
    memory = _memory(os, kinds["ram"], kinds["page"])
    disks = _disks(kinds["disk"], kinds["part"])
    return bounded(Machine(system=system, cpu=_cpu(kinds["cpu"]), memory=memory, disks=disks))


def entries(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of a list; ConvertTo-Json writes a list of one as the thing itself."""
    return (entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, dict))


def whole(value: Any) -> int | None:
    """A whole number that is not negative; 64-bit ones come as text."""
    digits = str(value)
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= _LONGEST_NUMBER else None


def _word(value: Any) -> Fact[Any]:
    return reported(value.strip()[:200], SOURCE) if isinstance(value, str) and value.strip() else NOT_LOOKED


def _size(value: Any, unit_bytes: int) -> Fact[Any]:
    number = whole(value)
    return NOT_LOOKED if number is None else reported(number * unit_bytes, SOURCE)


def _cpu(sockets: list[dict[str, Any]]) -> Cpu:
    """One object for each socket."""
    return Cpu(
        model=_word(sockets[0].get("Name")) if sockets else NOT_LOOKED,
        sockets=reported(len(sockets), SOURCE) if sockets else NOT_LOOKED,
        physical_cores=_sum(sockets, "NumberOfCores", 1),
        logical_cpus=_sum(sockets, "NumberOfLogicalProcessors", 1),
    )


def _sum(objects: list[dict[str, Any]], name: str, unit: int) -> Fact[Any]:
    numbers = [number for entry in objects if (number := whole(entry.get(name))) is not None]
    return reported(sum(numbers) * unit, SOURCE) if numbers else NOT_LOOKED


def _memory(os: dict[str, Any], modules: list[dict[str, Any]], pages: list[dict[str, Any]]) -> Memory:
    return Memory(
        total_bytes=_size(os.get("TotalVisibleMemorySize"), KIB),
        available_bytes=_size(os.get("FreePhysicalMemory"), KIB),
        swap_total_bytes=_sum(pages, "AllocatedBaseSize", MIB),
        swap_used_bytes=_sum(pages, "CurrentUsage", MIB),
        kind=_kind(modules),
    )


def _disks(disks: list[dict[str, Any]], parts: list[dict[str, Any]]) -> tuple[Disk, ...]:
    """What lies under each drive that has a letter."""
    kinds = {str(disk.get("DeviceId")): _disk_kind(disk) for disk in disks[:_MOST_DISKS]}
    drives = [(str(part.get("Drive", "")).upper(), str(part.get("DiskNumber"))) for part in parts[:_MOST_DISKS]]
    return tuple(
        Disk(path=f"{drive}:\\", kind=kinds[number], device=reported(f"disk {number}", _DISKS))
        for drive, number in drives
        if number in kinds and len(drive) == 1 and drive.isascii() and drive.isalpha()
    )


def _disk_kind(disk: dict[str, Any]) -> Fact[Any]:
    """By its medium, and by its bus where that is what limits it; enumerations come as words or as their numbers."""
    medium, bus = (str(disk.get(name, "")).lower() for name in ("MediaType", "BusType"))
    if medium in _HARD_DISK:
        return reported("hdd", _DISKS)
    if bus in _NVME:
        return reported("nvme", _DISKS)
    return reported("ssd" if bus in _SATA and medium in _SOLID_STATE else "other", _DISKS)


def _kind(modules: list[dict[str, Any]]) -> Fact[Any]:
    """The slowest module's speed: all run at it."""
    names = {_TYPES.get(whole(module.get("SMBIOSMemoryType")) or 0, "") for module in modules}
    speeds = [speed for module in modules if (speed := whole(module.get("ConfiguredClockSpeed")))]
    name = names.pop() if len(names) == 1 else ""
    return estimated(f"{name}-{min(speeds)}", f"{SOURCE} Win32_PhysicalMemory") if name and speeds else NOT_LOOKED
