"""GPUs as the kernel's graphics drivers list them: /sys/class/drm."""

import re
from typing import NamedTuple

from unslow.look.kernel.files import read_word
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

DRM = "/sys/class/drm"
_CARD = re.compile(r"card\d{1,4}")
_SLOT = re.compile(r"^PCI_SLOT_NAME=([0-9a-f:.]{12})$", re.MULTILINE)
_DRIVER = re.compile(r"^DRIVER=(\w{1,40})$", re.MULTILINE)


class Card(NamedTuple):
    """One card: its folder, the folder of its device, its PCI address and its driver."""

    path: str
    device: str
    bus_id: str
    driver: str


def read_cards(system: System, vendor: str) -> list[Card]:
    """The cards of a maker, such as "0x1002", in the order of their PCI addresses; none where there is no such list."""
    try:
        names = [name for name in system.list_dir(DRM) if _CARD.fullmatch(name)]
    except LookError:
        return []
    cards = (_read_card(system, f"{DRM}/{name}") for name in names if _is_of(system, f"{DRM}/{name}", vendor))
    return sorted(cards, key=lambda card: card.bus_id)


def _is_of(system: System, path: str, vendor: str) -> bool:
    try:
        return read_word(system, f"{path}/device/vendor").lower() == vendor
    except LookError:
        return False


def _read_card(system: System, path: str) -> Card:
    try:
        event = read_text(system, f"{path}/device/uevent")
    except LookError:
        event = ""
    slot, driver = _SLOT.search(event), _DRIVER.search(event)
    return Card(path, f"{path}/device", slot[1] if slot else "", driver[1] if driver else "")
