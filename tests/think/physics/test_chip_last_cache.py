"""A working set that fits in the last-level cache."""

import numpy as np

from unslow.think.physics.chip import LAST_CACHE_GAIN, Chip, reading_bytes_per_s

CHIP = Chip(1e12, 1e13, cache_bytes=100e6)


def test_working_set_within_the_cache_is_read_faster():
    assert reading_bytes_per_s(40e6, CHIP) == LAST_CACHE_GAIN * 1e12
    assert reading_bytes_per_s(60e6, CHIP) == 1e12
    assert reading_bytes_per_s(40e6, CHIP._replace(cache_bytes=0.0)) == 1e12


def test_cache_gain_works_on_arrays():
    assert list(reading_bytes_per_s(np.array([40e6, 60e6]), CHIP)) == [LAST_CACHE_GAIN * 1e12, 1e12]
