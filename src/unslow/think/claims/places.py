"""Where a model is claimed to run: the memory, the bandwidth and the arithmetic of the devices that a text names."""

import math
from typing import NamedTuple

from unslow.catalog.devices import Device
from unslow.think.claims.devices_in_text import DeviceSaid, usual_first
from unslow.think.claims.hosts import Host

BOOST = 1.03
"""How far a memory clock may lie above the datasheet's: what is beyond that too is impossible."""
_CACHE_GAIN = 10.0
"""How much quicker a last-level cache may be than the memory behind it."""


class Place(NamedTuple):
    """Devices of one kind, all together."""

    label: str
    bytes_per_s: float
    """0 where no memory is read, because the weights are wired in."""
    capacity_bytes: float = 0.0
    """0 where it is not known."""
    operations_per_s: float = 0.0
    """The most products and sums, in 8 bits; 0 where it is not known."""
    cache_bytes: float = 0.0
    device: Device | None = None
    number: int = 1

    @property
    def is_all_memory(self) -> bool:
        """Whether there is no memory beside it: what it can't hold stays on a disk."""
        return self.device is not None and self.device.kind in ("cpu", "unified")

    def for_model(self, weights_bytes: float) -> "Place":
        """The same; of chips with little memory each, as many as hold the model."""
        chip = self.device
        if not chip or chip.kind != "asic" or not chip.memory_bytes or self.capacity_bytes >= weights_bytes:
            return self
        return _several(chip, math.ceil(weights_bytes / chip.memory_bytes), 0)

    def read_bytes_per_s(self, weights_bytes: float) -> float:
        """How quickly such weights can be read at most: from the cache where they fit in it."""
        in_cache = self.cache_bytes and weights_bytes <= self.cache_bytes
        return self.bytes_per_s * (_CACHE_GAIN if in_cache else 1.0)


def places(said: DeviceSaid) -> list[Place]:
    """Each device that may be meant, as often as is said, the usual one first; of those that are alike, one."""
    alike: dict[tuple[float, int], Device] = {}
    for device in sorted(said.devices, key=usual_first):
        alike.setdefault((device.memory_bytes_per_s, device.memory_bytes), device)
    return [_several(device, said.number, said.memory_bytes) for device in alike.values()]


def on_host(host: Host) -> Place:
    """A host without a GPU."""
    device = host.device
    most = max(device.memory_bytes, *device.memory_sizes_bytes, 0) if device else 0
    return Place(host.label, host.bytes_per_s, most, device=device)


def _several(device: Device, number: int, memory_bytes: int) -> Place:
    """The memory that is named, else the most that the device is sold with."""
    each = memory_bytes or max(device.memory_bytes, *device.memory_sizes_bytes, 0)
    best = max(device.fp16_flops_per_s * 2, device.int8_ops_per_s)
    return Place(
        label=f"{number}x {device.name}" if number > 1 else device.name,
        bytes_per_s=device.memory_bytes_per_s * number,
        capacity_bytes=each * number,
        operations_per_s=best * number,
        cache_bytes=device.l2_bytes * number,
        device=device,
        number=number,
    )
