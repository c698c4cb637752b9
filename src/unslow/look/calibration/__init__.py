"""Measures made-up models one after another, again and again, and keeps what was learned from them."""

from unslow.look.calibration.rounds import Guest, Limits, Measured, Rounds, measure_in_rounds
from unslow.look.calibration.store import CalibrationStore, Stored, default_store, read_calibrations
from unslow.look.calibration.trials import Trial, trials_for

__all__ = [
    "CalibrationStore",
    "Guest",
    "Limits",
    "Measured",
    "Rounds",
    "Stored",
    "Trial",
    "default_store",
    "measure_in_rounds",
    "read_calibrations",
    "trials_for",
]
