"""The factors of the speed prediction as learned from measurements, and how far off it is on devices not seen."""

from functools import partial

import msgspec

from unslow.catalog import entries, entry


class Spread(msgspec.Struct, frozen=True):
    """Factors of the predicted speed between which four of five measurements lay."""

    low: float
    high: float
    configurations: int = 0
    devices: int = 0
    median_error: float = 0.0


class LearnedFactor(msgspec.Struct, frozen=True):
    """How far off a prediction from a measured bandwidth may be, as a factor either way."""

    spread: float
    source: str


class LearnedSpeed(msgspec.Struct, frozen=True):
    """All of it; `factors` are logarithms by their names."""

    made_by: str
    measurements: str
    factors: dict[str, float]
    spreads: dict[str, Spread]  # By group, and by group/backend where enough was measured
    chips: dict[str, list[str]] = {}  # The families that each backend was measured on

    def spread(self, group: str, backend: str) -> Spread:
        """Of a group on a backend, else of the group."""
        return self.spreads.get(f"{group}/{backend}") or self.spreads[group]


learned_speed = partial(entry, "speed", "learned", LearnedSpeed)  # What lab/fit_speed.py wrote


def spread_of(group: str, backend: str) -> Spread:
    """The learned spread of a group on a backend, else of the group."""
    return learned_speed().spread(group, backend)


backends = partial(entries, "backends", LearnedFactor)  # Every backend by name; GPUs are predicted from `learned_speed`
