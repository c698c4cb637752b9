"""AMD GPUs: through the files of the amdgpu driver, else as the PCI bus shows them.

AMD's own library is not used: it answers from the same files, and it breaks where it is half installed.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unslow.catalog.hardware_families import find_gpu_family
from unslow.facts.machine import Gpu, GpuProcess, Machine
from unslow.facts.machine import System as SystemFacts
from unslow.facts.values import MHZ, Fact, Known, estimated_fact, first_known, not_found, not_supported, reported_fact
from unslow.look.kernel import MICRO, MILLI, Sensors, parse_numbers, read_number, read_sensors, read_word
from unslow.look.kernel import gpus as drm
from unslow.look.logs.gpu_facts import gpu_of, gpu_without_facts, with_free
from unslow.look.system import LookError, System, read_text, try_fact, try_look, unknown

KFD_TOPOLOGY = "/sys/class/kfd/kfd"
_MOST_NODES = 256

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

# One file for the whole bus: machines without such a GPU, which are most, pay for a single read.
PCI_DEVICES = "/proc/bus/pci/devices"
# Place and driver of every device that AMD's graphics division made
_LINE = re.compile(r"^([0-9a-f]{4})\t1002[0-9a-f]{4}\t[^\n]{0,400}\t([\w-]{0,40})$", re.MULTILINE)
_DISPLAY = "0x03"  # PCI base class 03: VGA, 3D and display controllers
_HOW = "install AMD's driver or newer firmware: `sudo dmesg | grep amdgpu` says why it did not start"

TURN = 1  # see the probes' own page
AMD = "0x1002"
KFD_DEVICE = "/dev/kfd"


class KfdNode(NamedTuple):
    """One GPU: where its properties stand, its instruction set, and the number that KFD gave it."""

    source: str
    architecture: str
    number: int


def read(system: System) -> Machine:
    """All AMD GPUs, and whether ROCm may use them; nothing at all where there is none."""
    cards = drm.read_cards(system, AMD)
    if cards:  # as ROCm numbers them: those of its list first, in its order, which is not always that of the bus
        nodes = read_kfd_nodes(system)
        order = {bus_id: place for place, bus_id in enumerate(nodes)}
        cards = sorted(cards, key=lambda card: order.get(card.bus_id, len(order)))
        try:
            clients: list[drm.DrmClient] | LookError = drm.read_clients(system)
        except LookError as error:
            clients = error
        numbered = enumerate(cards)
        gpus = tuple(read_card(system, index, card, nodes.get(card.bus_id), clients) for index, card in numbered)
    else:
        gpus = read_gpus_without_driver(system)
    if not gpus:
        return Machine()
    return Machine(gpus=reported_fact(gpus, drm.DRM), system=SystemFacts(kfd_access=try_fact(read_kfd_access, system)))


def read_kfd_access(system: System) -> Fact[Any]:
    """Whether ROCm may use the GPUs; asked without opening the file, which would make this program their client."""
    answer = system.ask(
        f"access {KFD_DEVICE}",
        lambda: {"exists": Path(KFD_DEVICE).exists(), "allowed": os.access(KFD_DEVICE, os.R_OK | os.W_OK)},
    )
    match answer:
        case {"exists": True, "allowed": bool(allowed)}:
            return reported_fact(allowed, KFD_DEVICE)
    how = "load amdgpu; a container needs --device=/dev/kfd --device=/dev/dri"
    return not_found(f"{KFD_DEVICE} is not there", how)


def read_kfd_nodes(system: System) -> dict[str, KfdNode]:
    """The GPUs by PCI address, in ROCm's order; none where there is no KFD."""
    listed = try_look([], system.list_dir, f"{KFD_TOPOLOGY}/topology/nodes")
    names = sorted((name for name in listed if name.isdecimal()), key=int)
    found: dict[str, KfdNode] = {}
    for name in names[:_MOST_NODES]:
        path = f"{KFD_TOPOLOGY}/topology/nodes/{name}"
        try:
            node = parse_properties(read_text(system, f"{path}/properties"))
            number = read_number(system, f"{path}/gpu_id") if node else 0
        except LookError:  # a container sees the nodes of GPUs that it was not given, and may not read them
            continue
        if node:
            found[node[0]] = KfdNode(f"{path}/properties", node[1], number)
    return found


def parse_properties(text: str) -> tuple[str, str] | None:
    """PCI address and instruction set; None for a node that is only a processor."""
    numbers = parse_numbers(text)
    version, place = numbers.get("gfx_target_version", 0), numbers.get("location_id", 0)
    if not version:
        return None
    bus_id = f"{numbers.get('domain', 0):04x}:{place >> 8 & 255:02x}:{place >> 3 & 31:02x}.{place & 7}"
    # 110501 is gfx1151, and 90010 is gfx90a: two decimal digits for each part, written as hexadecimal ones
    return bus_id, f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def read_gpus_without_driver(system: System) -> tuple[Gpu, ...]:
    """The GPUs on the bus with the reason why they cannot be asked; none where there is none."""
    gpus: list[Gpu] = []
    for device, driver in _LINE.findall(try_look("", read_text, system, PCI_DEVICES)):
        place = int(device, 16)
        bus_id = f"0000:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}"
        if try_look("", read_word, system, f"/sys/bus/pci/devices/{bus_id}/class").startswith(_DISPLAY):
            why = f"driver not loaded: {driver} holds the device" if driver else "driver not loaded"
            facts = {"vendor": reported_fact("AMD", PCI_DEVICES), "bus_id": reported_fact(bus_id, PCI_DEVICES)}
            name = drm.read_lspci_name(system, bus_id)
            gpus.append(gpu_without_facts(len(gpus), not_found(why, _HOW), **facts, name=name))
    return tuple(gpus)


def read_card(
    system: System, index: int, card: drm.Card, node: KfdNode | None, clients: list[drm.DrmClient] | LookError
) -> Gpu:
    """The GPU with all that its files say; what is missing there is Unknown here."""
    sensors = read_sensors(system, card.device)

    def read_figure(file: str, convert: Callable[[int], float]) -> Fact[Any]:
        return reported_fact(convert(read_number(system, f"{card.device}/{file}")), f"{card.device}/{file}")

    facts = {fact: try_fact(read_figure, *how) for fact, how in _FILES.items()}
    name = drm.read_amd_name(system, card.device, card.bus_id)
    version, uevent = f"/sys/module/{card.driver}/version", f"{card.device}/uevent"
    try:
        driver: Fact[str] = reported_fact(f"{card.driver} {read_word(system, version)}", version)
    except LookError:
        driver = reported_fact(card.driver, uevent) if card.driver else not_found(f"{uevent} names no driver")
    kind = _kind(sensors, name)
    no_bus, no_node = not_found("it is not a PCI device"), not_found("KFD does not list this GPU")
    facts |= {
        "name": name,
        "kind": kind,
        "driver": driver,
        "bus_id": reported_fact(card.bus_id, uevent) if card.bus_id else no_bus,
        "architecture": reported_fact(node.architecture, node.source) if node else no_node,
        "processes": _read_processes(system, card, node, clients),
        **_read_clocks(system, card.device, sensors),
        **_temperatures(sensors),
        # Newer cards have the power of the moment in place of the average
        "power_w": sensors.number(("power1_average", "power1_input"), MICRO),
        "power_limit_w": sensors.number(("power1_cap",), MICRO),
        "power_limit_default_w": sensors.number(("power1_cap_default",), MICRO),
    }
    if kind.value_or("") == "integrated":
        facts = _of_one_memory(facts)
    else:  # one that is part of the processor shows a link that leads nowhere
        facts |= drm.read_link(system, card.device)
    return gpu_of(index, "AMD", f"{card.device}/vendor", with_free(facts))


def _kind(sensors: Sensors, name: Fact[Any]) -> Fact[Any]:
    """The driver shows the voltage of a northbridge for processors with graphics alone, and a power cap for cards.

    Where it shows neither, as in many containers, the name tells.
    """
    if "vddnb" in sensors.labels:
        return reported_fact("integrated", f"{sensors.path}: vddnb")
    if sensors.has("power1_cap"):
        return reported_fact("discrete", f"{sensors.path}: power1_cap and no vddnb")
    family = find_gpu_family(name.value_or(""))
    if family and family.unified and isinstance(name, Known):
        return estimated_fact("integrated", f"{name.source}: {name.value}")
    return not_found("the sensors do not distinguish a card from an integrated GPU")


def _of_one_memory(facts: dict[str, Fact[Any]]) -> dict[str, Fact[Any]]:
    """A GPU without memory of its own has what the firmware set aside for it, and what it may take of the rest."""
    sums = {
        "vram_total_bytes": _sum(facts["vram_total_bytes"], facts["gtt_total_bytes"]),
        "vram_used_bytes": _sum(facts["vram_used_bytes"], facts["gtt_used_bytes"]),
    }
    if isinstance(processes := facts["processes"], Known):
        held = [(process, _sum(process.vram_bytes, process.gtt_bytes)) for process in processes.value]
        whole = [msgspec.structs.replace(process, vram_bytes=size) for process, size in held]
        sums["processes"] = reported_fact(whole, processes.source)
    return facts | sums


def _sum(own: Fact[Any], lent: Fact[Any]) -> Fact[Any]:
    if not isinstance(own, Known) or not isinstance(lent, Known):
        return own
    return reported_fact(own.value + lent.value, f"{own.source} + {lent.source.rpartition('/')[2]}")


def _read_clocks(system: System, device: str, sensors: Sensors) -> dict[str, Fact[Any]]:
    facts: dict[str, Fact[Any]] = {}
    for name, label in (("clock", "sclk"), ("memory_clock", "mclk")):
        path = f"{device}/pp_dpm_{label}"
        try:
            now, most = parse_steps(read_word(system, path), path)
        except LookError as error:
            now = most = unknown(error)
        facts |= {f"{name}_hz": first_known(sensors.labelled_number(label, "input", 1), now), f"{name}_max_hz": most}
    level = f"{device}/power_dpm_force_performance_level"
    return facts | {"performance_state": try_fact(lambda: reported_fact(read_word(system, level), level))}


def parse_steps(text: str, source: str) -> tuple[Fact[Any], Fact[Any]]:
    """The clock now and the highest one, from lines `1: 2482Mhz *`."""
    steps = [(int(mhz) * MHZ, bool(star)) for mhz, star in _STEP.findall(text)]
    now = next(
        (reported_fact(hertz, source) for hertz, star in steps if star),
        not_found(f"{source} does not mark the current clock step"),
    )
    most = (
        reported_fact(max(hertz for hertz, _ in steps), source)
        if steps
        else not_found(f"{source} lists no clock steps")
    )
    return now, most


def _temperatures(sensors: Sensors) -> dict[str, Fact[Any]]:
    """Of the edge of the chip; the margin is that of the sensor which is nearest to its limit."""
    edge = sensors.labelled_number("edge", "input", MILLI)
    margins = {}
    for label in ("edge", "junction", "mem"):
        now, limit = sensors.labelled_number(label, "input", MILLI), sensors.labelled_number(label, "crit", MILLI)
        if isinstance(now, Known) and isinstance(limit, Known):
            margins[label] = limit.value - now.value
    margin: Fact[Any] = not_supported("no sensor has a limit")
    if margins:
        nearest = min(margins, key=lambda label: margins[label])
        margin = estimated_fact(margins[nearest], f"{sensors.path}: {nearest} crit - input")
    return {
        "temperature_c": edge if isinstance(edge, Known) else sensors.labelled_number("junction", "input", MILLI),
        "memory_temperature_c": sensors.labelled_number("mem", "input", MILLI),
        "temperature_slowdown_c": sensors.labelled_number("edge", "crit", MILLI),
        "temperature_shutdown_c": sensors.labelled_number("edge", "emergency", MILLI),
        "temperature_margin_c": margin,
    }


def _read_processes(
    system: System, card: drm.Card, node: KfdNode | None, clients: list[drm.DrmClient] | LookError
) -> Fact[Any]:
    if isinstance(clients, LookError):
        return unknown(clients, "run as root to see the processes of other users")
    found = {process.pid: process for process in drm.processes_of(clients, card.bus_id)}
    names = try_look([], system.list_dir, f"{KFD_TOPOLOGY}/proc") if node else []
    for pid in (int(name) for name in names if name.isdecimal()):
        path = f"{KFD_TOPOLOGY}/proc/{pid}/vram_{node.number if node else 0}"
        held = try_look(0, read_number, system, path)
        process = found.get(pid, GpuProcess(pid=pid))
        if held > process.vram_bytes.value_or(0):  # old kernels leave what is allocated for computing out of the sum
            found[pid] = msgspec.structs.replace(process, vram_bytes=reported_fact(held, f"{KFD_TOPOLOGY}/proc"))
    return reported_fact(list(found.values()), drm.FDINFO)
