"""AMD GPUs that no driver speaks for: the PCI bus alone shows them."""

import re

from unslow.facts.machine import Gpu
from unslow.facts.values import not_found, reported
from unslow.look.kernel.files import read_word
from unslow.look.kernel.gpu_names import read_lspci_name
from unslow.look.logs.nvidia_gpu import gpu_without_facts
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

# One file for the whole bus: machines without such a GPU, which are most, pay for a single read.
DEVICES = "/proc/bus/pci/devices"
_LINE = re.compile(r"^([0-9a-f]{4})\t1002[0-9a-f]{4}\t[^\n]{0,400}\t([\w-]{0,40})$", re.MULTILINE)
_DISPLAY = "0x03"  # PCI base class 03: VGA, 3D and display controllers
_HOW = "install AMD's driver or newer firmware: `sudo dmesg | grep amdgpu` says why it did not start"


def read_silent(system: System) -> tuple[Gpu, ...]:
    """The GPUs on the bus with the reason why they can't be asked; none where there is none."""
    try:
        found = parse_devices(read_text(system, DEVICES))
    except LookError:
        return ()
    gpus = [(bus_id, driver) for bus_id, driver in found if _is_display(system, bus_id)]
    return tuple(_silent(system, index, bus_id, driver) for index, (bus_id, driver) in enumerate(gpus))


def parse_devices(text: str) -> list[tuple[str, str]]:
    """PCI address and driver of every device that AMD's graphics division made."""
    places = ((int(match[1], 16), match[2]) for match in _LINE.finditer(text))
    return [(f"0000:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}", driver) for place, driver in places]


def _is_display(system: System, bus_id: str) -> bool:
    try:
        return read_word(system, f"/sys/bus/pci/devices/{bus_id}/class").startswith(_DISPLAY)
    except LookError:
        return False


def _silent(system: System, index: int, bus_id: str, driver: str) -> Gpu:
    why = not_found(f"driver not loaded: {driver} holds the device" if driver else "driver not loaded", _HOW)
    return gpu_without_facts(
        index,
        why,
        vendor=reported("AMD", DEVICES),
        bus_id=reported(bus_id, DEVICES),
        name=read_lspci_name(system, bus_id),
    )
