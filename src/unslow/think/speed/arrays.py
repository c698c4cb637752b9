"""Many questions as one: every number becomes an array, what is looked up by name stays one for all."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]
Floats = NDArray[np.float64]


def stack_values(values: Sequence[Any], index: Indices | slice = slice(None)) -> Any:
    """Values of one shape, each taken as often as the index says, or once; a number that all share stays a number."""
    first = values[0]
    if isinstance(first, bool | str) or first is None:
        return first
    if isinstance(first, int | float):
        return _numbers(values, index)
    if isinstance(first, Mapping):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _numbers([value.get(name, 0.0) for value in values], index) for name in names}
    if isinstance(first, tuple):
        leaves = [stack_values(column, index) for column in zip(*values, strict=True)]
        return type(first)(*leaves) if hasattr(first, "_fields") else tuple(leaves)
    raise TypeError(f"neither a number nor a sequence of numbers: {type(first).__name__}")


def outline(value: Any) -> Any:
    """What must be the same of values that are stacked: where something is missing or empty."""
    if isinstance(value, Mapping):
        return bool(value)
    return tuple(outline(part) for part in value) if isinstance(value, tuple) else value is None


def _numbers(values: Sequence[float], index: Indices | slice) -> float | Floats:
    first = values[0]
    if all(value == first for value in values):
        return float(first)
    return np.asarray(values, dtype=np.float64)[index]
