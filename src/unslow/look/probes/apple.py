"""Macs: `sysctl`, `vm_stat`, `system_profiler`, `ioreg`, and `powermetrics` where this program runs as root."""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from unslow.facts.machine import Cpu, Gpu, Machine, Memory
from unslow.facts.machine import System as SystemFacts
from unslow.facts.merge import overlaid
from unslow.facts.values import NOT_LOOKED, Fact, Known, not_supported, reported_fact
from unslow.look.logs import macos
from unslow.look.logs.gpu_facts import by_index, gpu_of, with_free
from unslow.look.system import LookError, System, read_text, try_look

T = TypeVar("T")

SYSTEMS = ("macOS",)
TURN = 1  # see the probes' own page
VERSION = "/System/Library/CoreServices/SystemVersion.plist"
SYSCTL = ("sysctl", *macos.SYSCTL_KEYS)
VM_STAT = ("vm_stat",)
PROFILER = ("system_profiler", "SPDisplaysDataType")
IOREG = ("ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")
POWER = ("powermetrics", "-n", "1", "-i", "200", "--samplers", "gpu_power,thermal")
_SLOW_S = 15.0  # system_profiler takes seconds on a busy Mac
_PRODUCT = re.compile(r"<key>ProductVersion</key>\s*<string>([\d.]{1,20})</string>")
_ROOT_ONLY = not_supported("powermetrics needs root", f"sudo {' '.join(POWER)}")


def read(system: System) -> Machine:
    """The Mac and its GPUs; nothing at all on another system."""
    try:
        version = _PRODUCT.search(read_text(system, VERSION))
    except LookError:
        return Machine()
    machine = _read_output(system, SYSCTL, macos.parse_sysctl, Machine())
    paged = _read_output(system, VM_STAT, macos.parse_vm_stat, Memory())
    power = _read_output(system, POWER, macos.parse_powermetrics, Machine())
    name: Fact[str] = reported_fact(f"macOS {version[1]}", VERSION) if version else NOT_LOOKED
    pressure = power.cpu.thermal_pressure
    thermal = Cpu(thermal_pressure=_ROOT_ONLY if pressure == NOT_LOOKED else pressure)
    machine = overlaid(machine, Machine(memory=paged, cpu=thermal, system=SystemFacts(name=name)))
    return msgspec.structs.replace(machine, gpus=_read_gpus(system, machine.memory, power))


def _read_output(system: System, command: tuple[str, ...], parse: Callable[[str, str], T], otherwise: T) -> T:
    done = try_look(None, system.run, command, timeout_s=_SLOW_S)
    return parse(done.stdout, " ".join(command[:2])) if done else otherwise


def _read_gpus(system: System, memory: Memory, power: Machine) -> Fact[tuple[Gpu, ...]]:
    none: tuple[Gpu, ...] = ()
    listed = _read_output(system, PROFILER, macos.parse_system_profiler, Machine()).gpus.value_or(none)
    seen = _read_output(system, IOREG, macos.parse_ioreg, none)
    own = tuple(gpu for gpu in listed if gpu.vendor.value_or("") == "Apple")
    others = tuple(gpu for gpu in listed if gpu.vendor.value_or("") != "Apple")
    gpus: list[Gpu] = []
    for gpu in by_index(own, seen, power.gpus.value_or(())) if own or seen else ():
        # With the part of the machine's memory that macOS lends it, and what only root can learn
        lent = {"vram_total_bytes": memory.wired_limit_bytes, "vram_used_bytes": gpu.vram_used_bytes}
        unread = [name for name in ("clock_hz", "clock_max_hz", "power_w") if not isinstance(getattr(gpu, name), Known)]
        facts = with_free({**lent, **dict.fromkeys(unread, _ROOT_ONLY)})
        free, available = facts.get("vram_free_bytes"), memory.available_bytes
        if isinstance(free, Known) and isinstance(available, Known) and free.value > available.value:
            facts["vram_free_bytes"] = available  # its limit is a right, not a reserve
        gpus.append(overlaid(gpu, gpu_of(gpu.index, "", "", facts)))
    return reported_fact((*gpus, *others), " ".join(PROFILER)) if gpus or others else NOT_LOOKED
