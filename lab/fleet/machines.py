"""Hosts and GPUs of a fleet, as their exporters would see them."""

from functools import cache
from typing import NamedTuple

from unslow.catalog.devices import find_device

GIB = 2**30
MIB = 2**20


class Card(NamedTuple):
    """A kind of GPU: its name in the catalogue and that of its driver."""

    name: str
    driver_name: str
    memory_clock_mhz: float
    """Under load; of the H200 as recorded, of others as nvidia-smi shows it in public reports."""


H200 = Card("H200 SXM", "NVIDIA H200", 3201)
H100 = Card("H100 SXM", "NVIDIA H100 80GB HBM3", 2619)
A100 = Card("A100 80GB SXM", "NVIDIA A100-SXM4-80GB", 1593)
L40S = Card("L40S", "NVIDIA L40S", 9001)
L4 = Card("L4", "NVIDIA L4", 6251)
MI300X = Card("MI300X", "AMD Instinct MI300X OAM", 1300)


class Gpu(NamedTuple):
    """One GPU at work: as the recorded H200 does under load where nothing else is said (tests/machines/h200_*)."""

    card: Card
    place: int = 0
    """Its number on its host."""
    busy: float = 0.97
    memory_busy: float = 0.49
    clock_share: float = 1.0
    """Of its highest clock."""
    temperature_c: float = 56.0
    memory_temperature_c: float = 66.0
    power_share: float = 0.80
    """Of its limit: 560 to 606 W of 700 W were recorded."""
    limit_share: float = 1.0
    """The power limit as it is set, over the one that it was made with."""
    memory_used_share: float = 0.93
    thermal: float = 0.0
    """Share of the time in which heat holds its clocks down."""
    power_held: float = 0.0
    """The same of its power limit."""
    reasons: int = 0
    """Bits of clocks_event_reasons.active."""

    @property
    def memory_mib(self) -> float:
        """As the driver tells it."""
        return memory_bytes(self.card.name) / MIB

    @property
    def clock_max_mhz(self) -> float:
        """Its highest clock."""
        return _device(self.card.name)[1] / 1e6

    @property
    def default_limit_w(self) -> float:
        """The limit that it was made with."""
        return _device(self.card.name)[2]


class Host(NamedTuple):
    """A machine as the node exporter sees it."""

    name: str
    cpus: int = 16
    busy_cpus: float = 3.0
    memory_bytes: float = 512 * GIB
    available_share: float = 0.7
    swap_bytes: float = 8 * GIB
    swap_used_share: float = 0.0
    swapped_in_pages_per_s: float = 0.0
    swapped_out_pages_per_s: float = 0.0
    memory_pressure: float = 0.0
    cpu_pressure: float = 0.01
    io_pressure: float = 0.002
    read_bytes_per_s: float = 40_000.0


def memory_bytes(card: str) -> float:
    """What the driver tells as the whole memory of a card."""
    return _device(card)[0]


@cache
def _device(name: str) -> tuple[float, float, float]:
    device = find_device(name)
    if device is None:
        raise LookupError(f"the catalogue has no {name}")
    return float(device.driver_bytes or device.memory_bytes), device.clock_hz, device.tdp_w
