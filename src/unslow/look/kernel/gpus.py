"""GPUs as the kernel shows them: the cards, their names and links, and what each process holds of them."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from unslow.facts.machine import GpuProcess
from unslow.facts.values import GIB, KIB, MIB, Fact, not_found, reported_fact
from unslow.look.kernel import read_number, read_word
from unslow.look.system import LookError, System, read_text, try_fact, try_look

DRM = "/sys/class/drm"
_CARD = re.compile(r"card\d{1,4}")
_SLOT = re.compile(r"^PCI_SLOT_NAME=([0-9a-f:.]{12})$", re.MULTILINE)
_DRIVER = re.compile(r"^DRIVER=(\w{1,40})$", re.MULTILINE)

FDINFO = "/proc/*/fdinfo"
CLIENTS_QUESTION = "drm clients"
_MOST_PIDS = 65536
_MOST_FDS = 4096
_MOST_CLIENTS = 4096
_LONGEST = 8192
_PAIR = re.compile(r"^(drm-[a-z0-9-]{2,40}):\s*([^\n]{1,100})$", re.MULTILINE)
_SIZE = re.compile(r"(\d{1,15})(?: ([KMG]iB))?$")
_UNITS = {None: 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
# Resident is what lies there now; older kernels have only the second form. Intel calls a discrete card's memory
# vram0 (xe) or local0 (i915), AMD calls it vram.
_VRAM = ("drm-resident-vram", "drm-memory-vram", "drm-resident-vram0", "drm-resident-local0", "drm-total-local0")
_GTT = ("drm-resident-gtt", "drm-memory-gtt")
_SYSTEM = ("drm-resident-system0", "drm-resident-system")

# Marketing names of AMD's GPUs by device and revision; libdrm brings the list, and AMD's own driver a newer one.
AMD_LISTS = ("/usr/share/libdrm/amdgpu.ids", "/opt/amdgpu/share/libdrm/amdgpu.ids")
_LSPCI = re.compile(r"(?:VGA compatible|3D|Display) controller: (.{3,200}?)(?: \(rev [0-9a-f]{2}\))?$", re.MULTILINE)
_BRACKETS = re.compile(r"\[([^\[\]]{3,100})\]$")

_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s")
# Transfers a second of each generation of PCI Express, in units of 1e9.
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_WIDEST = 32  # a device that is switched off reports 255 lanes
_AMD, _BRIDGE = "0x1002", "0x0604"


class Card(NamedTuple):
    """One card: its folder, the folder of its device, its PCI address and its driver."""

    path: str
    device: str
    bus_id: str
    driver: str


class DrmClient(NamedTuple):
    """One open file of a GPU, and what it holds."""

    pid: int
    name: str
    bus_id: str
    number: str
    vram_bytes: int
    gtt_bytes: int
    system_bytes: int


def read_cards(system: System, vendor: str) -> list[Card]:
    """The cards of a maker, such as "0x1002", in the order of their PCI addresses; none where there is no such list."""
    cards, names = [], try_look([], system.list_dir, DRM)
    for path in (f"{DRM}/{name}" for name in names if _CARD.fullmatch(name)):
        if try_look("", read_word, system, f"{path}/device/vendor").lower() == vendor:
            event = try_look("", read_text, system, f"{path}/device/uevent")
            slot, driver = _SLOT.search(event), _DRIVER.search(event)
            cards.append(Card(path, f"{path}/device", slot[1] if slot else "", driver[1] if driver else ""))
    return sorted(cards, key=lambda card: card.bus_id)


def read_clients(system: System) -> list[DrmClient]:
    """Every client of a PCI device that this user may see; LookError where there is no /proc."""
    answer, found = system.ask(CLIENTS_QUESTION, ask_clients), []
    for entry in answer if isinstance(answer, list) else ():
        match entry:
            case {"pid": int(pid), "name": str(name), "fdinfo": str(text)} if pid > 0:
                values = {pair[1]: pair[2].strip() for pair in _PAIR.finditer(text[:_LONGEST])}
                sizes = []
                for keys in (_VRAM, _GTT, _SYSTEM):  # the first of each that is there
                    size = next((m for key in keys if key in values and (m := _SIZE.match(values[key]))), None)
                    sizes.append(int(size[1]) * _UNITS[size[2]] if size else 0)
                if bus_id := values.get("drm-pdev", ""):
                    found.append(DrmClient(pid, name, bus_id, values.get("drm-client-id", ""), *sizes))
    return found


def ask_clients(proc: str = "/proc") -> list[dict[str, Any]]:
    """The fdinfo of every open file below /dev/dri, with its process: thousands of links read, a few files kept."""
    try:
        pids = sorted(int(name) for name in os.listdir(proc) if name.isdecimal())[:_MOST_PIDS]
    except OSError as error:
        raise LookError(f"{proc}: {error.strerror or error}") from error
    found: list[dict[str, Any]] = []
    for pid in pids:
        with suppress(OSError):  # it ended, or it belongs to another user
            found += _ask_process(Path(proc, str(pid)))
    return found[:_MOST_CLIENTS]


def _ask_process(folder: Path) -> list[dict[str, Any]]:
    name, found = "", []
    for number in os.listdir(folder / "fd")[:_MOST_FDS]:
        with suppress(OSError):
            if str((folder / "fd" / number).readlink()).startswith("/dev/dri/"):
                name = name or (folder / "comm").read_text(errors="replace").strip()
                with open(folder / "fdinfo" / number, "rb") as file:
                    text = file.read(_LONGEST).decode("utf-8", "replace")
                found.append({"pid": int(folder.name), "name": name, "fdinfo": text})
    return found


def processes_of(clients: Iterable[DrmClient], bus_id: str) -> list[GpuProcess]:
    """The processes on one GPU, the largest first; a client that several files share counts once."""
    once = {(client.pid, client.number): client for client in clients if client.bus_id == bus_id}
    held: dict[int, list[DrmClient]] = {}
    for client in once.values():
        held.setdefault(client.pid, []).append(client)
    found = []
    for pid, of in held.items():
        sizes = {
            "vram_bytes": reported_fact(sum(client.vram_bytes for client in of), f"/proc/{pid}/fdinfo"),
            "gtt_bytes": reported_fact(sum(client.gtt_bytes for client in of), f"/proc/{pid}/fdinfo"),
            "shared_bytes": reported_fact(sum(client.system_bytes for client in of), f"/proc/{pid}/fdinfo"),
        }
        name = reported_fact(of[0].name, f"/proc/{pid}/comm") if of[0].name else not_found("it has no name")
        found.append(GpuProcess(pid=pid, name=name, **sizes))
    return sorted(found, key=lambda process: (-process.vram_bytes.value_or(0), process.pid))


def read_amd_name(system: System, device: str, bus_id: str) -> Fact[Any]:
    """A Radeon's or Instinct's name."""
    with suppress(LookError):
        return reported_fact(read_word(system, f"{device}/product_name"), f"{device}/product_name")
    for path in AMD_LISTS:
        with suppress(LookError):
            words = [read_word(system, f"{device}/{file}") for file in ("device", "revision")]
            number, revision = (re.escape(word.lower().removeprefix("0x")) for word in words)
            line = rf"^{number},\s*{revision},\s*(\S[^\n]{{1,100}})$"  # `744C, C8, AMD Radeon RX 7900 XTX`
            if match := re.search(line, read_text(system, path), re.IGNORECASE | re.MULTILINE):
                return reported_fact(match[1].strip(), path)
    return read_lspci_name(system, bus_id)


def read_lspci_name(system: System, bus_id: str) -> Fact[Any]:
    """What `lspci` calls it; one entry can stand for several products."""
    command = ["lspci", "-s", bus_id]
    try:
        match = _LSPCI.search(system.run(command).stdout)
    except LookError as error:
        return not_found(f"{bus_id} is in no list of device names ({error.why})", "install pciutils, or run `lspci`")
    if not match:
        return not_found(f"lspci has no name for {bus_id}", "lspci -nn")
    product = _BRACKETS.search(match[1])  # what stands in the last brackets, else all of it
    return reported_fact(product[1] if product else match[1], " ".join(command))


def read_link(system: System, device: str) -> dict[str, Fact[Any]]:
    """The four facts of the link between the slot and the card that holds this device."""
    place = _slot_of(system, device)

    def read_figure(file: str) -> Fact[Any]:
        path = f"{place}/{file}"
        if file.endswith("_speed"):
            return parse_generation(read_word(system, path), path)
        lanes = read_number(system, path)
        return reported_fact(lanes, path) if 0 < lanes <= _WIDEST else not_found(f"{path} says {lanes}")

    return {
        "pcie_generation": try_fact(read_figure, "current_link_speed"),
        "pcie_generation_max": try_fact(read_figure, "max_link_speed"),
        "pcie_width": try_fact(read_figure, "current_link_width"),
        "pcie_width_max": try_fact(read_figure, "max_link_width"),
    }


def _slot_of(system: System, device: str) -> str:
    """The device itself, or the outermost bridge of the card: behind it AMD's GPUs show a link that never changes."""
    parts = try_look("", system.read_link, device).split("/")
    for depth in range(4, len(parts)):  # below /sys/devices/pci0000:00
        path = "/".join(parts[:depth])
        with suppress(LookError):
            if read_word(system, f"{path}/vendor") == _AMD and read_word(system, f"{path}/class").startswith(_BRIDGE):
                return path
    return device


def parse_generation(text: str, source: str) -> Fact[Any]:
    """The generation of a speed such as "16.0 GT/s PCIe"."""
    match = _SPEED.search(text)
    generation = GENERATIONS.get(float(match[1])) if match else None
    return reported_fact(generation, source) if generation else not_found(f'{source} says "{text[:40]}"')
