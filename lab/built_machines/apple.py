"""A Mac in a built world: what sysctl, vm_stat, system_profiler and ioreg print."""

from typing import NamedTuple

from lab.built_machines.world import World

from unslow.facts.values import GIB
from unslow.look.probes.apple import IOREG, POWER, PROFILER, SYSCTL, VERSION, VM_STAT

PAGE_BYTES = 16384


class Mac(NamedTuple):
    """A Mac and how its memory is doing."""

    chip: str = "Apple M2 Pro"
    model: str = "Mac14,10"
    gpu_cores: int = 19
    fast: int = 8
    slow: int = 4
    memory_gib: int = 32
    wired_limit_mib: int = 0
    """0 where nobody raised it."""
    pressure: int = 1
    """kern.memorystatus_vm_pressure_level: 1 normal, 2 warn, 4 critical."""
    swap_used_mib: float = 0
    free_gib: float = 12
    wired_gib: float = 8
    compressed_gib: float = 0.5
    in_use_gib: float = 8
    busy: int = 98
    thermal: str = ""
    """The pressure that powermetrics reports to root; empty where nobody asked as root."""


def mac(machine: Mac) -> World:
    """The Mac without any runtime on it."""
    commands = {SYSCTL: _sysctl(machine), VM_STAT: _vm_stat(machine), PROFILER: _profiler(machine)}
    used = round(machine.in_use_gib * GIB)
    commands[IOREG] = (
        f'"PerformanceStatistics" = {{"In use system memory"={used},"Device Utilization %"={machine.busy}}}\n'
    )
    if machine.thermal:
        commands[POWER] = f"GPU HW active frequency: 700 MHz\n\nCurrent pressure level: {machine.thermal}\n"
    plist = "<dict>\n\t<key>ProductVersion</key>\n\t<string>15.6</string>\n</dict>"
    return World(
        files={VERSION: plist},
        commands={" ".join(words): text for words, text in commands.items()},
        asks={"sys.platform": "darwin", "home": "/Users/user"},
    )


def _sysctl(machine: Mac) -> str:
    total = machine.swap_used_mib and machine.swap_used_mib + 1024
    rows = {
        "hw.model": machine.model,
        "hw.memsize": machine.memory_gib * GIB,
        "hw.physicalcpu": machine.fast + machine.slow,
        "hw.logicalcpu": machine.fast + machine.slow,
        "hw.perflevel0.physicalcpu": machine.fast,
        "hw.perflevel1.physicalcpu": machine.slow,
        "machdep.cpu.brand_string": machine.chip,
        "iogpu.wired_limit_mb": machine.wired_limit_mib,
        "vm.swapusage": f"total = {total:.2f}M  used = {machine.swap_used_mib:.2f}M  free = "
        f"{total - machine.swap_used_mib:.2f}M  (encrypted)",
        "kern.memorystatus_vm_pressure_level": machine.pressure,
    }
    return "".join(f"{name}: {value}\n" for name, value in rows.items())


def _vm_stat(machine: Mac) -> str:
    pages = {
        "Pages free": machine.free_gib,
        "Pages inactive": 1,
        "Pages speculative": 0.1,
        "Pages wired down": machine.wired_gib,
        "Pages occupied by compressor": machine.compressed_gib,
    }
    rows = "".join(f"{name}: {round(gib * GIB / PAGE_BYTES)}.\n" for name, gib in pages.items())
    return f"Mach Virtual Memory Statistics: (page size of {PAGE_BYTES} bytes)\n{rows}Swapouts: 0.\n"


def _profiler(machine: Mac) -> str:
    return (
        f"Graphics/Displays:\n\n    {machine.chip}:\n\n      Chipset Model: {machine.chip}\n      Type: GPU\n"
        f"      Bus: Built-In\n      Total Number of Cores: {machine.gpu_cores}\n      Vendor: Apple (0x106b)\n"
        "      Metal Support: Metal 3\n"
    )
