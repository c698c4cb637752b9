"""One card of the amdgpu driver as facts."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from unslow.catalog.gpu_families import find_gpu_family
from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.units import MHZ
from unslow.facts.values import Fact, Known, estimated, first_known, not_found, not_supported, reported
from unslow.look.kernel.drm_cards import Card
from unslow.look.kernel.drm_clients import SOURCE as CLIENTS
from unslow.look.kernel.drm_clients import Client, processes_of
from unslow.look.kernel.files import read_number, read_word
from unslow.look.kernel.gpu_names import read_amd_name
from unslow.look.kernel.hwmon import MICRO, MILLI, Sensors, read_sensors
from unslow.look.kernel.pcie_link import read_link
from unslow.look.logs.gpu_builder import gpu_of
from unslow.look.logs.rocm_keys import with_free
from unslow.look.probes.amdgpu_sysfs.kfd import Node, read_held, read_pids
from unslow.look.system import LookError, System, unknown

_PERCENT = 100
_STEP = re.compile(r"(?:\d{1,2}|S): *(\d{1,6})Mhz( *\*)?", re.IGNORECASE)
_FILES: dict[str, tuple[str, Callable[[int], float]]] = {
    "vram_total_bytes": ("mem_info_vram_total", int),
    "vram_used_bytes": ("mem_info_vram_used", int),
    "gtt_total_bytes": ("mem_info_gtt_total", int),
    "gtt_used_bytes": ("mem_info_gtt_used", int),
    "busy": ("gpu_busy_percent", lambda percent: percent / _PERCENT),
    "memory_busy": ("mem_busy_percent", lambda percent: percent / _PERCENT),
}


def read_card(system: System, index: int, card: Card, node: Node | None, clients: list[Client] | LookError) -> Gpu:
    """The GPU with all that its files say; what is missing there is Unknown here."""
    sensors = read_sensors(system, card.device)
    facts = {name: _read(system, f"{card.device}/{file}", convert) for name, (file, convert) in _FILES.items()}
    name = read_amd_name(system, card.device, card.bus_id)
    kind = _kind(sensors, name)
    facts |= {
        "name": name,
        "kind": kind,
        "driver": _read_driver(system, card),
        "bus_id": reported(card.bus_id, f"{card.device}/uevent") if card.bus_id else not_found("it is no PCI device"),
        "architecture": reported(node.architecture, node.source) if node else not_found("KFD does not list this GPU"),
        "processes": _read_processes(system, card, node, clients),
    }
    facts |= _read_clocks(system, card.device, sensors) | _temperatures(sensors) | _power(sensors)
    if kind.value_or("") == "integrated":
        facts = _of_one_memory(facts)
    else:  # one that is part of the processor shows a link that leads nowhere
        facts |= read_link(system, card.device)
    return gpu_of(index, "AMD", f"{card.device}/vendor", with_free(facts))


def _read(system: System, path: str, convert: Callable[[int], float]) -> Fact[Any]:
    try:
        return reported(convert(read_number(system, path)), path)
    except LookError as error:
        return unknown(error)


def _kind(sensors: Sensors, name: Fact[Any]) -> Fact[Any]:
    """The driver shows the voltage of a northbridge for processors with graphics alone, and a power cap for cards.

    Where it shows neither, as in many containers, the name tells.
    """
    if "vddnb" in sensors.labels:
        return reported("integrated", f"{sensors.path}: vddnb")
    if sensors.has("power1_cap"):
        return reported("discrete", f"{sensors.path}: power1_cap and no vddnb")
    family = find_gpu_family(name.value_or(""))
    if family and family.unified and isinstance(name, Known):
        return estimated("integrated", f"{name.source}: {name.value}")
    return not_found("the sensors do not tell a card from a part of the processor")


def _of_one_memory(facts: dict[str, Fact[Any]]) -> dict[str, Fact[Any]]:
    """A GPU without memory of its own has what the firmware set aside for it, and what it may take of the rest."""
    sums = {
        "vram_total_bytes": _sum(facts["vram_total_bytes"], facts["gtt_total_bytes"]),
        "vram_used_bytes": _sum(facts["vram_used_bytes"], facts["gtt_used_bytes"]),
    }
    processes = facts["processes"]
    if isinstance(processes, Known):
        sums["processes"] = reported([_with_all(process) for process in processes.value], processes.source)
    return facts | sums


def _with_all(process: GpuProcess) -> GpuProcess:
    return msgspec.structs.replace(process, vram_bytes=_sum(process.vram_bytes, process.gtt_bytes))


def _sum(own: Fact[Any], lent: Fact[Any]) -> Fact[Any]:
    """Both together, where both are known."""
    if not isinstance(own, Known) or not isinstance(lent, Known):
        return own
    return reported(own.value + lent.value, f"{own.source} + {lent.source.rpartition('/')[2]}")


def _read_driver(system: System, card: Card) -> Fact[Any]:
    """The driver, with its version where it is not the kernel's own."""
    path = f"/sys/module/{card.driver}/version"
    try:
        return reported(f"{card.driver} {read_word(system, path)}", path)
    except LookError:
        source = f"{card.device}/uevent"
        return reported(card.driver, source) if card.driver else not_found(f"{source} names no driver")


def _read_clocks(system: System, device: str, sensors: Sensors) -> dict[str, Fact[Any]]:
    core, core_max = _read_steps(system, f"{device}/pp_dpm_sclk")
    memory, memory_max = _read_steps(system, f"{device}/pp_dpm_mclk")
    level = f"{device}/power_dpm_force_performance_level"
    try:
        state: Fact[Any] = reported(read_word(system, level), level)
    except LookError as error:
        state = unknown(error)
    return {
        "clock_hz": first_known(sensors.labelled("sclk", "input", 1), core),
        "clock_max_hz": core_max,
        "memory_clock_hz": first_known(sensors.labelled("mclk", "input", 1), memory),
        "memory_clock_max_hz": memory_max,
        "performance_state": state,
    }


def _read_steps(system: System, path: str) -> tuple[Fact[Any], Fact[Any]]:
    try:
        return parse_steps(read_word(system, path), path)
    except LookError as error:
        return unknown(error), unknown(error)


def parse_steps(text: str, source: str) -> tuple[Fact[Any], Fact[Any]]:
    """The clock now and the highest one, from lines `1: 2482Mhz *`."""
    steps = [(int(mhz) * MHZ, bool(star)) for mhz, star in _STEP.findall(text)]
    now = next((reported(hertz, source) for hertz, star in steps if star), not_found(f"{source} marks no step"))
    most = reported(max(hertz for hertz, _ in steps), source) if steps else not_found(f"{source} lists no steps")
    return now, most


def _temperatures(sensors: Sensors) -> dict[str, Fact[Any]]:
    """Of the edge of the chip; the margin is that of the sensor which is nearest to its limit."""
    edge = sensors.labelled("edge", "input", MILLI)
    return {
        "temperature_c": edge if isinstance(edge, Known) else sensors.labelled("junction", "input", MILLI),
        "memory_temperature_c": sensors.labelled("mem", "input", MILLI),
        "temperature_slowdown_c": sensors.labelled("edge", "crit", MILLI),
        "temperature_shutdown_c": sensors.labelled("edge", "emergency", MILLI),
        "temperature_margin_c": _margin(sensors),
    }


def _margin(sensors: Sensors) -> Fact[Any]:
    margins = {}
    for label in ("edge", "junction", "mem"):
        now, limit = sensors.labelled(label, "input", MILLI), sensors.labelled(label, "crit", MILLI)
        if isinstance(now, Known) and isinstance(limit, Known):
            margins[label] = limit.value - now.value
    nearest = min(margins, key=lambda label: margins[label], default="")
    if not nearest:
        return not_supported("no sensor has a limit")
    return estimated(margins[nearest], f"{sensors.path}: {nearest} crit - input")


def _power(sensors: Sensors) -> dict[str, Fact[Any]]:
    """Newer cards have the power of the moment in place of the average."""
    return {
        "power_w": sensors.number(("power1_average", "power1_input"), MICRO),
        "power_limit_w": sensors.number(("power1_cap",), MICRO),
        "power_limit_default_w": sensors.number(("power1_cap_default",), MICRO),
    }


def _read_processes(system: System, card: Card, node: Node | None, clients: list[Client] | LookError) -> Fact[Any]:
    if isinstance(clients, LookError):
        return unknown(clients, "run as root to see the processes of other users")
    found = {process.pid: process for process in processes_of(clients, card.bus_id)}
    for pid in read_pids(system) if node else ():
        held = read_held(system, pid, node.number if node else 0)
        if held:
            found[pid] = _with_held(found.get(pid, GpuProcess(pid=pid)), held)
    return reported(list(found.values()), CLIENTS)


def _with_held(process: GpuProcess, held_bytes: int) -> GpuProcess:
    """Old kernels leave what is allocated for computing out of a client's sum."""
    if process.vram_bytes.value_or(0) >= held_bytes:
        return process
    return msgspec.structs.replace(process, vram_bytes=reported(held_bytes, "/sys/class/kfd/kfd/proc"))
