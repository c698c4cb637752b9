"""A reading as a fact: with where it comes from, or why there is none."""

from collections.abc import Mapping
from typing import Any

from unslow.facts.values import LARGEST_COUNT, Fact, estimated, not_found, reported
from unslow.fleet.member import Reading

SOURCE = "Prometheus"


class Readings:
    """The readings of an engine, a GPU or a host; what is missing is told by `why`."""

    def __init__(self, readings: Mapping[str, Reading], why: str) -> None:
        self._readings, self._why = readings, why

    def __contains__(self, name: str) -> bool:
        """Whether there is such a reading."""
        return name in self._readings

    def value(self, name: str, default: float = 0.0) -> float:
        """The number, where there is one."""
        found = self._readings.get(name)
        return found.value if found else default

    def source(self, *names: str) -> str:
        """Where these come from, as evidence shows it."""
        told = dict.fromkeys(self._readings[name].source for name in names if name in self._readings)
        return f"{SOURCE}: {'; '.join(told)}" if told else SOURCE

    def fact(self, name: str, factor: float = 1.0) -> Fact[float]:
        """As Prometheus has it."""
        found = self._readings.get(name)
        return reported(found.value * factor, _told(found)) if found else self.missing(name)

    def whole(self, name: str) -> Fact[int]:
        """A count or a size in bytes."""
        found = self._readings.get(name)
        if found is None or not 0 <= found.value <= LARGEST_COUNT:
            return self.missing(name)
        return reported(round(found.value), _told(found))

    def share(self, name: str) -> Fact[float]:
        """A part of one; what two clocks make a little more of it is one."""
        found = self._readings.get(name)
        return reported(min(1.0, max(0.0, found.value)), _told(found)) if found else self.missing(name)

    def worked_out(self, value: Any, *names: str) -> Fact[Any]:
        """What follows from several."""
        return estimated(value, self.source(*names))

    def missing(self, name: str) -> Fact[Any]:
        """Why there is none."""
        return not_found(self._why or f"{SOURCE} has no {name.replace('_', ' ')} of it")


def _told(reading: Reading) -> str:
    """Where one comes from: `Readings.source` of it alone."""
    return f"{SOURCE}: {reading.source}"
