"""The memory of a host: as a text names it, else the best that an ordinary one has."""

import re
from typing import NamedTuple

from unslow.catalog.devices import Device, all_devices
from unslow.facts.units import GB, GIB
from unslow.think.claims.phrases import any_of

_DDR = re.compile(r"\b(?:lp)?ddr([345])x?[- ](\d{4,5})\b")
_CHANNELS = re.compile(r"\b(\d{1,2})[ -]?(?:channels?|ch)\b|\b(single|dual|quad|octa)[ -]channel")
_CHANNEL_WORDS = {"single": 1, "dual": 2, "quad": 4, "octa": 8}
_CPU = any_of(
    "cpu[ -]only", r"(?:on|with|using|by) (?:a |an |the |my )?(?:\w+[ -]){0,3}?cpu", "no gpu",
    "without (?:a )?gpu", "ryzen", "core (?:ultra|i[3579])", r"i[3579]-\d{4,5}\w*", r"ddr[345]\w*",
)  # fmt: skip
_BYTES_A_TRANSFER = 8
DESKTOP_BYTES_PER_S = 128 * GB
"""Two channels of DDR5-8000: quicker than what most desktops run."""
DESKTOP_MOST_BYTES = 256 * GIB
"""Four modules of 64 GiB; a model that asks for more runs on a server."""
DESKTOP_MOST_DEVICES = 3
DISK_BYTES_PER_S = 15.8 * GB
"""Four lanes of PCIe 5.0: 4 x 32 GT/s with 128 of 130 bits."""


class Host(NamedTuple):
    """A host's memory."""

    label: str
    bytes_per_s: float
    named: bool = False
    device: Device | None = None
    """The processors of the catalogue, where a text names them."""


def host_said(text: str) -> Host | None:
    """The host that a plain text names: by its DDR, or by its processor."""
    if ddr := _DDR.search(text):
        channels = _CHANNELS.search(text)
        number = (int(channels[1] or 0) or _CHANNEL_WORDS[channels[2]]) if channels else 2
        rate = number * _BYTES_A_TRANSFER * int(ddr[2]) * 1e6
        return Host(f"{number} channels of {ddr[0].upper().replace(' ', '-')}", rate, named=True)
    found = [d for d in _cpus() if re.search(rf"\b{re.escape(_processor(d))}\b", text)]
    best = max(found, key=lambda d: d.memory_bytes_per_s, default=None)
    return Host(best.name.removeprefix("CPU "), best.memory_bytes_per_s, named=True, device=best) if best else None


def is_on_cpu(text: str) -> bool:
    """Whether a plain text that names no GPU speaks of a CPU."""
    return bool(_CPU.search(text)) or host_said(text) is not None


def desktop() -> Host:
    """The best that an ordinary desktop has."""
    return Host("a desktop's memory", DESKTOP_BYTES_PER_S)


def server() -> Host:
    """The quickest host of the catalogue."""
    best = max(_cpus(), key=lambda d: d.memory_bytes_per_s, default=None)
    return Host(best.name.removeprefix("CPU "), best.memory_bytes_per_s) if best else desktop()


def disk() -> Host:
    """The quickest drive: what a memory that is the host's too can't hold comes from there at every token."""
    return Host("a disk", DISK_BYTES_PER_S)


def host_for(spilled_bytes: float, devices: int, said: Host | None) -> Host:
    """The named host, else the ordinary one that could hold so much and so many devices."""
    is_desktop = spilled_bytes <= DESKTOP_MOST_BYTES and devices <= DESKTOP_MOST_DEVICES
    return said or (desktop() if is_desktop else server())


def _cpus() -> list[Device]:
    return [d for d in all_devices() if d.kind == "cpu" and d.memory_bytes_per_s]


def _processor(device: Device) -> str:
    """The word by which a processor is known: epyc, threadripper, xeon; of bare memory, none that a text has."""
    words = device.name.lower().removeprefix("cpu ").removeprefix("2x ").split()
    return words[0] if words and not re.match(r"(?:lp)?ddr", words[0]) else "\0"
