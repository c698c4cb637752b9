"""The memory that a device has, and what of it a model can use."""

from typing import NamedTuple

from unslow.facts.units import MIB

CUDA_CONTEXT_BYTES = 527 * MIB
"""What a process holds on an NVIDIA GPU before it has any buffer, as measured on an H200 with CUDA 13."""


class Room(NamedTuple):
    """A device's memory, or the host's."""

    name: str
    capacity_bytes: int
    others_bytes: int = 0
    """In use by other processes."""
    reserve_bytes: int = 0
    """What the driver keeps for itself, or what the system does not give a GPU of a memory that both share."""
    unified: bool = False
    """Whether it is the host's memory too, which then has no room of its own."""
    context_bytes: int = CUDA_CONTEXT_BYTES
    """What a runtime holds there before it has any buffer."""
    note: str = ""
    """What was assumed about it; empty where there is nothing to say."""

    @property
    def usable_bytes(self) -> int:
        """What is left for a process."""
        return max(0, self.capacity_bytes - self.others_bytes - self.reserve_bytes)


DRIVER_SHARE = 0.015
"""What a driver keeps of a card's memory, as consumer cards report it (memory.reserved)."""
DRIVER_MOST_BYTES = 615 * MIB
"""As an H200 reports it."""


def driver_reserve(capacity_bytes: int) -> int:
    """An estimate of what the driver keeps, for a card that is not here to be asked."""
    return min(int(capacity_bytes * DRIVER_SHARE), DRIVER_MOST_BYTES)
