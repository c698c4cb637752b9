"""What measurements mean: repeats, comparisons, sweeps, verification, tuning, calibration. Pure functions."""
