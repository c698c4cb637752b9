"""What could be bought: every card of the catalogue once or twice, and every machine with one memory."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from unslow.catalog.device import Device
from unslow.facts.units import GIB

_NOT_CARDS = ("laptop", "max-q", "sxm", "gh200", "mi250", "mi3", "cmp ", "a10g", "arc a730m", "arc a770m")
"""Parts of names of what is soldered into something, or needs a board of its own."""
_MOBILE_RADEON = ("rx 6600m", "rx 6700m", "rx 6700s", "rx 6800m", "rx 6800s", "rx 6850m", "rx 7600m", "rx 7900m")
_LEAST_BYTES = 4 * GIB
"""A card with less runs nothing that anybody would buy it for."""


class Rig(NamedTuple):
    """So many devices of a kind."""

    device: Device
    number: int = 1
    memory_bytes: int = 0
    """Of one, where it is sold with several sizes; 0 for the device's own."""

    @property
    def each_bytes(self) -> int:
        """The memory of one of them as labelled; 0 where it is not known."""
        return self.memory_bytes or self.device.memory_bytes or self.device.driver_bytes

    @property
    def label(self) -> str:
        """One of them, with its size where there are several."""
        return f"{self.device.name} {self.memory_bytes // GIB}GB" if self.memory_bytes else self.device.name

    @property
    def name(self) -> str:
        """As a person says it."""
        return f"{self.number}x {self.label}" if self.number > 1 else self.label

    @property
    def is_smallest(self) -> bool:
        """Whether it is the size that its maker's first price is for."""
        return not self.memory_bytes or self.memory_bytes == min(self.device.memory_sizes_bytes)

    def is_one_of(self, other: "Rig") -> bool:
        """Whether it is such a device, of such a size where the other has one, once or several times."""
        return self.device.name == other.device.name and other.memory_bytes in (0, self.memory_bytes)


def is_card(device: Device) -> bool:
    """Whether it is a card that can be put into a computer."""
    name = device.name.lower()
    return device.kind == "gpu" and not any(part in name for part in (*_NOT_CARDS, *_MOBILE_RADEON))


def rigs_of(devices: Iterable[Device]) -> Iterator[Rig]:
    """Each device once, in every size that it is sold with."""
    for device in devices:
        if device.memory_bytes or not device.memory_sizes_bytes:
            yield Rig(device)
        else:
            yield from (Rig(device, 1, size) for size in device.memory_sizes_bytes)


def buyable(devices: Iterable[Device]) -> Iterator[Rig]:
    """What a person can buy: cards alone and in pairs, machines with one memory."""
    for rig in rigs_of(d for d in devices if d.memory_bytes_per_s):
        if rig.device.kind == "unified" and rig.each_bytes:
            yield rig
        elif is_card(rig.device) and rig.each_bytes >= _LEAST_BYTES:
            yield rig
            yield rig._replace(number=2)
