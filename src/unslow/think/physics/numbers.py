"""Numbers and arrays of them, alike: a million configurations are computed like one."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Number = float | NDArray[float64]


def exponential(x: Number) -> Number:
    """The exponential, element by element."""
    if isinstance(x, (int, float)):
        return math.exp(x)
    found: Number = _numpy().exp(x)
    return found


def logarithm(x: Number) -> Number:
    """The natural logarithm, element by element."""
    if isinstance(x, (int, float)):
        return math.log(x)
    found: Number = _numpy().log(x)
    return found


def smaller(a: Number, b: Number) -> Number:
    """The smaller of two, element by element."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return min(a, b)
    found: Number = _numpy().minimum(a, b)
    return found


def larger(a: Number, b: Number) -> Number:
    """The larger of two, element by element."""
    return -smaller(-a, -b)


def at_most(a: Number, b: Number) -> Number:
    """1 where the first is no larger than the second, 0 elsewhere."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return 1.0 if a <= b else 0.0
    found: Number = _numpy().less_equal(a, b).astype("float64")
    return found


@cache
def _numpy() -> Any:
    """NumPy takes long to load, and who asks about one case needs none of it."""
    import numpy as np  # noqa: PLC0415  (only once there is an array)

    return np
