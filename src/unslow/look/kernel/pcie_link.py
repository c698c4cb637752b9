"""The link of a PCI device: its generation and width, now and at most."""

import re
from typing import Any

from unslow.facts.values import Fact, not_found, reported
from unslow.look.kernel.files import read_number, read_word
from unslow.look.system import LookError, System, unknown

_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s")
# Transfers a second of each generation of PCI Express, in units of 1e9.
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_WIDEST = 32  # a device that is switched off reports 255 lanes
_AMD, _BRIDGE = "0x1002", "0x0604"


def read_link(system: System, device: str) -> dict[str, Fact[Any]]:
    """The four facts of the link between the slot and the card that holds this device."""
    place = _slot_of(system, device)
    return {
        "pcie_generation": _read_generation(system, f"{place}/current_link_speed"),
        "pcie_generation_max": _read_generation(system, f"{place}/max_link_speed"),
        "pcie_width": _read_width(system, f"{place}/current_link_width"),
        "pcie_width_max": _read_width(system, f"{place}/max_link_width"),
    }


def _slot_of(system: System, device: str) -> str:
    """The device itself, or the outermost bridge of the card: behind it AMD's GPUs show a link that never changes."""
    try:
        parts = system.read_link(device).split("/")
    except LookError:
        return device
    for depth in range(4, len(parts)):  # below /sys/devices/pci0000:00
        path = "/".join(parts[:depth])
        try:
            if read_word(system, f"{path}/vendor") == _AMD and read_word(system, f"{path}/class").startswith(_BRIDGE):
                return path
        except LookError:
            continue
    return device


def _read_generation(system: System, path: str) -> Fact[Any]:
    try:
        return parse_generation(read_word(system, path), path)
    except LookError as error:
        return unknown(error)


def parse_generation(text: str, source: str) -> Fact[Any]:
    """The generation of a speed such as "16.0 GT/s PCIe"."""
    match = _SPEED.search(text)
    generation = GENERATIONS.get(float(match[1])) if match else None
    return reported(generation, source) if generation else not_found(f'{source} says "{text[:40]}"')


def _read_width(system: System, path: str) -> Fact[Any]:
    try:
        lanes = read_number(system, path)
    except LookError as error:
        return unknown(error)
    return reported(lanes, path) if 0 < lanes <= _WIDEST else not_found(f"{path} says {lanes}")
