"""Predictions for many rows at once: what they share is understood once, and those looked up alike priced together."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unslow.facts.errors import UserError
from unslow.facts.units import GIB
from unslow.facts.values import Unknown
from unslow.think.speed.bases import (
    DEEPEST,
    DEPTH,
    NAMES,
    OFF,
    SIZE,
    Base,
    Cells,
    base_of,
    number,
    size_refused,
    spilled_base,
)
from unslow.think.speed.group import DEEP_FROM
from unslow.think.speed.placing import block_of
from unslow.think.speed.stacked import Floats, Indices
from unslow.think.speed.together import Part, rates


class Predictions(NamedTuple):
    """One entry for each row; speeds are NaN where nothing is predicted, and the reason says why."""

    low: Floats
    mid: Floats
    high: Floats
    basis: list[str]
    reasons: list[str]


class _Table(NamedTuple):
    """The numbers of all rows, and what is answered; NaN is no number."""

    depths: Floats
    gibs: Floats
    basis: NDArray[np.object_]
    reasons: NDArray[np.object_]

    def refuse(self, rows: Indices, why: str) -> None:
        """No prediction for these."""
        self.reasons[rows] = why


def predict_many(columns: Mapping[str, Any]) -> Predictions:
    """Predictions for columns of equal length; a column may be one value for all rows.

    Columns are those of a table of measurements, `model`, `hardware` and `test` among them; `ctx_or_depth` and
    `model_size_gib` may be arrays of numbers.
    """
    lengths = {len(c) for c in columns.values() if not isinstance(c, str | int | float)}
    if len(lengths) > 1:
        raise UserError(f"columns of different lengths: {sorted(lengths)}", "one value for each row, or one for all")
    if missing := [name for name in ("model", "hardware", "test") if name not in columns]:
        raise UserError(f"there is no column {', '.join(missing)}", "model, hardware and test are needed")
    rows = lengths.pop() if lengths else 1
    known = tuple(name for name in NAMES if name in columns)
    cells = zip(*(_cells(columns[name], rows) for name in known), strict=True)
    return _predicted(known, cells, *(_numbers(columns.get(name, ""), rows) for name in (DEPTH, SIZE)))


def predict_cells(columns: Cells, rows: Iterable[Cells], depths: Iterable[str], gibs: Iterable[str]) -> Predictions:
    """Predictions for rows of text: the cells of these columns, which are some of NAMES, and the two numbers."""
    return _predicted(columns, rows, _parsed(depths), _parsed(gibs))


def _cells(column: Any, rows: int) -> Iterable[str]:
    if isinstance(column, str | int | float):
        return repeat(str(column), rows)
    return (str(cell) for cell in column)


def _numbers(column: Any, rows: int) -> Floats:
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
        return column.astype(np.float64)
    return _parsed(_cells(column, rows))


def _parsed(cells: Iterable[str]) -> Floats:
    return np.array([math.nan if (value := number(cell)) is None else value for cell in cells], dtype=np.float64)


def _predicted(columns: Cells, names: Iterable[Cells], depths: Floats, gibs: Floats) -> Predictions:
    count = len(depths)
    empty = np.full(count, "", dtype=object)
    table = _Table(depths, gibs, empty, empty.copy())
    buckets: dict[Hashable, list[Part]] = defaultdict(list)
    for cells, rows in _by_names(names).items():
        known = dict(zip(columns, cells, strict=True))
        whole = tuple([known.get(name, "") for name in NAMES])
        for part in _parts(whole, np.asarray(rows, dtype=np.intp), table):
            buckets[part.base.lookup].append(part)
    speeds = np.full((3, count), np.nan)
    for parts in buckets.values():
        speeds[:, np.concatenate([part.rows for part in parts])] = rates(parts, depths)
    low, mid, high = speeds
    return Predictions(low, mid, high, table.basis.tolist(), table.reasons.tolist())


def _by_names(names: Iterable[Cells]) -> dict[Cells, list[int]]:
    found: dict[Cells, list[int]] = defaultdict(list)
    for n, cells in enumerate(names):
        found[cells].append(n)
    return found


def _parts(cells: Cells, rows: Indices, table: _Table) -> Iterator[Part]:
    """The rows of the same names by what lies where; those that can't be are refused."""
    base = base_of(cells)
    if isinstance(base, Unknown):
        table.refuse(rows, base.why)
        return
    rows = _kept(rows, table)
    scales = _scales(base, table.gibs[rows])
    table.refuse(rows[scales == 0], size_refused(base))
    rows, scales = rows[scales > 0], scales[scales > 0]
    spills = base.on_gpu_bytes * scales > base.room_bytes
    yield _part(base, rows[~spills], scales[~spills], table)
    for scale in np.unique(scales[spills]):
        same = rows[spills & (scales == scale)]
        blocks = block_of(table.depths[same])
        for block in np.unique(blocks):
            some = same[blocks == block]
            yield _part(spilled_base(cells, float(scale), float(block)), some, np.ones(len(some)), table)


def _kept(rows: Indices, table: _Table) -> Indices:
    """The rows whose numbers are numbers."""
    depths, gibs = table.depths[rows], table.gibs[rows]
    fine = (depths >= 0) & (depths <= DEEPEST)
    table.refuse(rows[~fine], f"{DEPTH} is no number of tokens that can be")
    table.refuse(rows[fine & np.isnan(gibs)], f"{SIZE} is no size")
    return rows[fine & ~np.isnan(gibs)]


def _scales(base: Base, gibs: Floats) -> Floats:
    """How many times larger the weights are than those of the quant; 0 where no file of it can be so large."""
    scales = gibs * GIB / max(1.0, base.file_bytes)
    possible = (scales > 1 / OFF) & (scales < OFF)
    return np.where(gibs == 0, 1.0, scales * possible)


def _part(base: Base, rows: Indices, scales: Floats, table: _Table) -> Part:
    shallow, deep = base.basis
    is_deep = table.depths[rows] >= DEEP_FROM
    table.basis[rows[is_deep]], table.basis[rows[~is_deep]] = deep, shallow
    return Part(base, rows, scales)
