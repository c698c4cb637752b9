"""What a runtime holds on one device: exact where it is a sum of tensors, an interval where it is not."""

from typing import NamedTuple


class Spread(NamedTuple):
    """The least, the most likely and the most bytes."""

    low: int
    mid: int
    high: int

    def plus(self, other: "Spread") -> "Spread":
        return Spread(self.low + other.low, self.mid + other.mid, self.high + other.high)


NOTHING_HELD = Spread(0, 0, 0)


class DeviceBytes(NamedTuple):
    """Bytes on one device, or on the host."""

    weights_bytes: int = 0
    kv_bytes: int = 0
    compute: Spread = NOTHING_HELD  # Activations at their peak
    other: Spread = NOTHING_HELD  # The driver's context, libraries, captured graphs: what lies beside tensors

    @property
    def compute_bytes(self) -> int:
        """The most likely peak of the activations."""
        return self.compute.mid

    @property
    def total(self) -> Spread:
        exact = self.weights_bytes + self.kv_bytes
        return Spread(exact, exact, exact).plus(self.compute).plus(self.other)
