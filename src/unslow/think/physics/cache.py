"""A chip's last cache: weights that stay in it from token to token are read faster than the memory delivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unslow.think.physics.numbers import at_most

if TYPE_CHECKING:
    from unslow.think.physics.chip import Chip
    from unslow.think.physics.numbers import Number

GAIN = 1.4
"""Copies that fit it against large ones on an H200: 5.9 against 4.25 TB/s (lab/data, runs `micro`)."""
SHARE = 0.5
"""Weights that take more of it than this push each other out: every token reads all of them, in the same order."""


def reading_bytes_per_s(working_set_bytes: Number, chip: Chip) -> Number:
    """How fast a working set of this size is read again and again."""
    fits = at_most(working_set_bytes, SHARE * chip.cache_bytes)
    return chip.bytes_per_s * (1 + (GAIN - 1) * fits)
