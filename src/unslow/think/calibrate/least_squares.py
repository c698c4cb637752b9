"""The costs, none of them negative, that explain measured times best: a dozen unknowns, so plain Python will do."""

from collections.abc import Sequence

_SMALLEST_PIVOT = 1e-10


def nonnegative(rows: Sequence[Sequence[float]], targets: Sequence[float]) -> list[float]:
    """The x >= 0 with the least squares of `rows · x - targets`; what no row tells about is 0.

    A cost that comes out negative is noise: the most negative one is set to 0 and the others are solved for again.
    """
    width = len(rows[0]) if rows else 0
    scales = [max((abs(row[j]) for row in rows), default=0.0) for j in range(width)]
    kept = [j for j in range(width) if scales[j] > 0]
    while kept:
        found = _solved([[row[j] / scales[j] for j in kept] for row in rows], targets)
        worst = min(range(len(kept)), key=lambda n: found[n])
        if found[worst] >= 0:
            return _spread_out(width, {j: value / scales[j] for j, value in zip(kept, found, strict=True)})
        del kept[worst]
    return [0.0] * width


def _spread_out(width: int, values: dict[int, float]) -> list[float]:
    return [values.get(j, 0.0) for j in range(width)]


def _solved(rows: Sequence[Sequence[float]], targets: Sequence[float]) -> list[float]:
    """Least squares by the normal equations, whose columns are scaled already."""
    width = len(rows[0])
    table = [
        [sum(row[i] * row[j] for row in rows) for j in range(width)]
        + [sum(row[i] * target for row, target in zip(rows, targets, strict=True))]
        for i in range(width)
    ]
    return _eliminated(table)


def _eliminated(table: list[list[float]]) -> list[float]:
    """Gauss and Jordan with pivots; an unknown that the others explain as well is 0."""
    width = len(table)
    free = set(range(width))
    pivots: dict[int, int] = {}
    for column in range(width):
        row = max(free, key=lambda r: abs(table[r][column]))
        if abs(table[row][column]) < _SMALLEST_PIVOT:
            continue
        free.discard(row)
        pivots[column] = row
        _clear(table, row, column)
    return [table[pivots[c]][width] if c in pivots else 0.0 for c in range(width)]


def _clear(table: list[list[float]], row: int, column: int) -> None:
    """Make the column 1 in its row and 0 in all others."""
    pivot = table[row][column]
    table[row] = [value / pivot for value in table[row]]
    for other, values in enumerate(table):
        if other != row and values[column]:
            factor = values[column]
            table[other] = [v - factor * p for v, p in zip(values, table[row], strict=True)]
