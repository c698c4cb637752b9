"""Least squares with a few unknowns: with how sure each of them is, and with none of them negative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_SINGULAR = 1e-6  # columns of length one that others explain but for this much determine nothing of their own


class Fit(NamedTuple):
    """The unknowns, their standard errors, and the squares that are left over."""

    values: tuple[float, ...]
    errors: tuple[float, ...]
    left_over: float


def least_squares(rows: Sequence[Sequence[float]], wanted: Sequence[float]) -> Fit | None:
    """The fit of rows that are scaled to an error of one each; None where they do not determine the unknowns."""
    import numpy as np  # noqa: PLC0415  (a tenth of a second, for the few commands that fit something)

    matrix = np.array(rows, dtype=float)
    lengths = np.linalg.norm(matrix, axis=0)
    if not lengths.all():
        return None
    scaled = matrix / lengths
    found, _, rank, _ = np.linalg.lstsq(scaled, np.array(wanted, dtype=float), rcond=_SINGULAR)
    if rank < len(lengths):
        return None
    missed = scaled @ found - wanted
    errors = np.linalg.norm(np.linalg.pinv(scaled), axis=1) / lengths
    return Fit(tuple((found / lengths).tolist()), tuple(errors.tolist()), float(missed @ missed))


def nonnegative_least_squares(rows: Sequence[Sequence[float]], targets: Sequence[float]) -> list[float]:
    """The x >= 0 with the least squares of `rows · x - targets`; 0 for what no row or earlier columns determine."""
    # A cost that comes out negative is noise: the most negative one is set to 0 and the others are solved for again.
    import numpy as np  # noqa: PLC0415

    if not rows:
        return []
    matrix = np.array(rows, dtype=float)
    scales = np.abs(matrix).max(axis=0)
    costs = [0.0] * len(scales)
    kept = np.flatnonzero(scales).tolist()
    while kept:
        scaled = matrix[:, kept] / scales[kept]
        told: list[int] = []
        for column in range(len(kept)):
            if np.linalg.matrix_rank(scaled[:, [*told, column]], tol=_SINGULAR) > len(told):
                told.append(column)
        found = np.linalg.lstsq(scaled[:, told], np.array(targets, dtype=float), rcond=None)[0].tolist()
        worst = min(range(len(told)), key=found.__getitem__)
        if found[worst] >= 0:
            for column, value in zip(told, found, strict=True):
                costs[kept[column]] = value / float(scales[kept[column]])
            break
        del kept[told[worst]]
    return costs
