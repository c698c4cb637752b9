"""The name of a PCI device: what its maker wrote into it, or what the lists of names on this machine say."""

import re
from typing import Any

from unslow.facts.values import Fact, not_found, reported
from unslow.look.kernel.files import read_word
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

# Marketing names of AMD's GPUs by device and revision; libdrm brings the list, and AMD's own driver a newer one.
AMD_LISTS = ("/usr/share/libdrm/amdgpu.ids", "/opt/amdgpu/share/libdrm/amdgpu.ids")
_LSPCI = re.compile(r"(?:VGA compatible|3D|Display) controller: (.{3,200}?)(?: \(rev [0-9a-f]{2}\))?$", re.MULTILINE)
_BRACKETS = re.compile(r"\[([^\[\]]{3,100})\]$")


def read_amd_name(system: System, device: str, bus_id: str) -> Fact[Any]:
    """A Radeon's or Instinct's name."""
    try:
        return reported(read_word(system, f"{device}/product_name"), f"{device}/product_name")
    except LookError:
        pass
    for path in AMD_LISTS:
        try:
            number, revision = read_word(system, f"{device}/device"), read_word(system, f"{device}/revision")
            name = parse_amd_list(read_text(system, path), number, revision)
        except LookError:
            continue
        if name:
            return reported(name, path)
    return read_lspci_name(system, bus_id)


def parse_amd_list(text: str, number: str, revision: str) -> str:
    """The name in a line `744C, C8, AMD Radeon RX 7900 XTX`; empty where there is none."""
    digits = (re.escape(word.lower().removeprefix("0x")) for word in (number, revision))
    match = re.search(rf"^{next(digits)},\s*{next(digits)},\s*(\S[^\n]{{1,100}})$", text, re.IGNORECASE | re.MULTILINE)
    return match[1].strip() if match else ""


def read_lspci_name(system: System, bus_id: str) -> Fact[Any]:
    """What `lspci` calls it; one entry can stand for several products."""
    command = ["lspci", "-s", bus_id]
    try:
        name = parse_lspci(system.run(command).stdout)
    except LookError as error:
        return not_found(f"no list of names here knows {bus_id} ({error.why})", "install pciutils, or run `lspci`")
    return reported(name, " ".join(command)) if name else not_found(f"lspci has no name for {bus_id}", "lspci -nn")


def parse_lspci(text: str) -> str:
    """The product in a line of lspci: what stands in its last brackets, else all of it."""
    match = _LSPCI.search(text)
    if not match:
        return ""
    product = _BRACKETS.search(match[1])
    return product[1] if product else match[1]
