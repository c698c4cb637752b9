"""Learns the costs of a machine from measured points, and says which calibration a prediction may use."""

from unslow.think.calibrate.demand import demand_of
from unslow.think.calibrate.fit import drift_of, fitted
from unslow.think.calibrate.matching import Match, mark_of, matching, of_machine, same_machine, stale_because

__all__ = [
    "Match",
    "demand_of",
    "drift_of",
    "fitted",
    "mark_of",
    "matching",
    "of_machine",
    "same_machine",
    "stale_because",
]
