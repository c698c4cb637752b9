"""Least squares with a few unknowns, and how sure each of them is."""

import math
from collections.abc import Sequence
from typing import NamedTuple

_SINGULAR = 1e-12


class Fit(NamedTuple):
    """The unknowns, their standard errors, and the squares that are left over."""

    values: tuple[float, ...]
    errors: tuple[float, ...]
    left_over: float


def least_squares(rows: Sequence[Sequence[float]], wanted: Sequence[float]) -> Fit | None:
    """The fit of rows that are scaled to an error of one each; None where they do not determine the unknowns."""
    size = len(rows[0])
    normal = [[sum(row[i] * row[j] for row in rows) for j in range(size)] for i in range(size)]
    inverse = _inverse(normal)
    if inverse is None:
        return None
    right = [sum(row[i] * value for row, value in zip(rows, wanted, strict=True)) for i in range(size)]
    values = tuple(sum(a * b for a, b in zip(line, right, strict=True)) for line in inverse)
    errors = tuple(math.sqrt(max(0.0, inverse[i][i])) for i in range(size))
    missed = (
        value - sum(a * b for a, b in zip(row, values, strict=True)) for row, value in zip(rows, wanted, strict=True)
    )
    return Fit(values, errors, sum(miss * miss for miss in missed))


def _inverse(matrix: list[list[float]]) -> list[list[float]] | None:
    """Gauss and Jordan, on a matrix whose scales are evened out first."""
    size = len(matrix)
    scale = [math.sqrt(matrix[i][i]) for i in range(size)]
    if not all(scale):
        return None
    work = [
        [matrix[i][j] / scale[i] / scale[j] for j in range(size)] + [float(i == j) for j in range(size)]
        for i in range(size)
    ]
    for column in range(size):
        pivot = max(range(column, size), key=lambda i: abs(work[i][column]))
        if abs(work[pivot][column]) < _SINGULAR:
            return None
        work[column], work[pivot] = work[pivot], work[column]
        work[column] = [entry / work[column][column] for entry in work[column]]
        for other in (i for i in range(size) if i != column):
            factor = work[other][column]
            work[other] = [a - factor * b for a, b in zip(work[other], work[column], strict=True)]
    return [[work[i][size + j] / scale[i] / scale[j] for j in range(size)] for i in range(size)]
