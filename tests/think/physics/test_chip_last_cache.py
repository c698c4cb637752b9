"""A working set that fits a chip's cache."""

import numpy as np

from unslow.think.physics.chip import LAST_CACHE_GAIN, Chip, reading_bytes_per_s

CHIP = Chip(1e12, 1e13, cache_bytes=100e6)


def test_what_fits_is_read_faster_and_what_does_not_is_not():
    assert reading_bytes_per_s(40e6, CHIP) == LAST_CACHE_GAIN * 1e12
    assert reading_bytes_per_s(60e6, CHIP) == 1e12
    assert reading_bytes_per_s(40e6, CHIP._replace(cache_bytes=0.0)) == 1e12


def test_arrays_are_like_numbers():
    assert list(reading_bytes_per_s(np.array([40e6, 60e6]), CHIP)) == [LAST_CACHE_GAIN * 1e12, 1e12]
