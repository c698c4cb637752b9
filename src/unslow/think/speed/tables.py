"""Predictions for many rows at once: what they share is understood once, those looked up alike are priced as arrays."""

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unslow.catalog.learned_speed import Spread, spread_of
from unslow.facts.errors import UserError
from unslow.facts.values import GIB, Unknown
from unslow.think.physics.terms import least_seconds
from unslow.think.speed.arrays import Floats, Indices, outline, stack_values
from unslow.think.speed.question import (
    PIPELINES_SINCE,
    SpeedQuestion,
    Trust,
    prompt_terms,
    prompt_token_seconds,
    step_seconds,
    step_terms,
    trust_in,
)
from unslow.think.speed.rows import DEEP_FROM, AskedRow, block_of, group_of, is_open, parse_row, placed_row, question_of

NAMES = (
    "model", "hardware", "test", "quant", "params_b", "n_gpus", "backend", "runtime", "ngl", "flash_attn", "kv_type",
    "threads", "batch", "date_or_build", "note",
)  # fmt: skip
"""The columns that are looked up; together they name a base."""
DEPTH, SIZE = "ctx_or_depth", "model_size_gib"  # the columns whose numbers may differ from row to row
_TRICKS = re.compile(r"(?i)spec|mtp|draft|claimed")
_MOST_GPUS = 1024
_LONGEST = 1000
DEEPEST = 2.0**27
_NOTHING_SAID = frozenset({"none", "nan", "n/a", "-", "?", "short", "default"})
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d*)?")
MOST_KEPT = 20_000  # bases that are kept from one piece of a table to the next, of a few kB each
OFF = 8.0  # how many times larger or smaller than the model in its quant a file may be said to be
Cells = tuple[str, ...]
Rates: TypeAlias = tuple[Floats, Floats, Floats]  # low, most likely, high


class Base(NamedTuple):
    """What was understood of the names, with no depth and the size that the quant gives."""

    asked: AskedRow
    question: SpeedQuestion
    trust: Trust
    shallow: Spread
    deep: Spread
    basis: tuple[str, str]  # Where the interval comes from, for a shallow and for a deep context
    lookup: Hashable  # Bases with the same can be priced together
    file_bytes: float
    room_bytes: float  # Of the GPUs, where the placement may have to be chosen; endless where it is said
    on_gpu_bytes: float  # Of the weights, if all lie there that can


class TablePart(NamedTuple):
    """Rows of one base, with the scale of their weights."""

    base: Base
    rows: Indices
    scales: Floats


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


def predict_many(columns: Mapping[str, Any]) -> Predictions:
    """Predictions for columns of equal length; a column may be one value for all rows.

    Columns are those of a table of measurements, `model`, `hardware` and `test` among them; `ctx_or_depth` and
    `model_size_gib` may be arrays of numbers.
    """
    lengths = {len(c) for c in columns.values() if not isinstance(c, str | int | float)}
    if len(lengths) > 1:
        raise UserError(f"columns of different lengths: {sorted(lengths)}", "one value for each row, or one for all")
    if missing := [name for name in ("model", "hardware", "test") if name not in columns]:
        raise UserError(f"missing column {', '.join(missing)}", "model, hardware and test are required")
    rows = lengths.pop() if lengths else 1
    known = tuple(name for name in NAMES if name in columns)
    cells = zip(*(_cells(columns[name], rows) for name in known), strict=True)
    numbers = [columns.get(name, "") for name in (DEPTH, SIZE)]
    are_numbers = [isinstance(column, np.ndarray) and column.dtype.kind in "iuf" for column in numbers]
    depths, gibs = (c if is_array else _cells(c, rows) for c, is_array in zip(numbers, are_numbers, strict=True))
    return predict_cells(known, cells, depths, gibs)


def _cells(column: Any, rows: int) -> Iterable[str]:
    if isinstance(column, str | int | float):
        return repeat(str(column), rows)
    return (str(cell) for cell in column)


@lru_cache(maxsize=100_000)
def cells_number(cell: str) -> float | None:
    """The number in a cell, 0 for an empty one; None where it is none, negative or endless."""
    text = cell.strip()
    if not text or text.lower() in _NOTHING_SAID:
        return 0.0
    try:
        value = float(text.replace(",", "") if _THOUSANDS.fullmatch(text) else text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def predict_cells(
    columns: Cells, names: Iterable[Cells], depths: Iterable[str] | Floats, gibs: Iterable[str] | Floats
) -> Predictions:
    """Predictions for rows of text: the cells of these columns, which are some of NAMES, and the two numbers."""
    tokens, sizes = (
        cells.astype(np.float64)
        if isinstance(cells, np.ndarray)
        else np.array([cells_number(cell) for cell in cells], dtype=np.float64)  # None becomes NaN
        for cells in (depths, gibs)
    )
    count = len(tokens)
    empty = np.full(count, "", dtype=object)
    table = _Table(tokens, sizes, empty, empty.copy())
    buckets: dict[Hashable, list[TablePart]] = defaultdict(list)
    by_names: dict[Cells, list[int]] = defaultdict(list)
    for n, cells in enumerate(names):
        by_names[cells].append(n)
    for cells, rows in by_names.items():
        known = dict(zip(columns, cells, strict=True))
        whole = tuple([known.get(name, "") for name in NAMES])
        for part in _parts(whole, np.asarray(rows, dtype=np.intp), table):
            buckets[part.base.lookup].append(part)
            shallow, deep = part.base.basis
            is_deep = table.depths[part.rows] >= DEEP_FROM
            table.basis[part.rows[is_deep]], table.basis[part.rows[~is_deep]] = deep, shallow
    speeds = np.full((3, count), np.nan)
    for parts in buckets.values():
        speeds[:, np.concatenate([part.rows for part in parts])] = table_rates(parts, table.depths)
    low, mid, high = speeds
    return Predictions(low, mid, high, table.basis.tolist(), table.reasons.tolist())


def _parts(cells: Cells, rows: Indices, table: _Table) -> Iterator[TablePart]:
    """The rows of the same names by what lies where; those that can't be are refused."""
    base = base_of(cells)
    if isinstance(base, Unknown):
        table.reasons[rows] = base.why
        return
    # The rows whose numbers are numbers
    depths, gibs = table.depths[rows], table.gibs[rows]
    fine = (depths >= 0) & (depths <= DEEPEST)
    table.reasons[rows[~fine]] = f"{DEPTH} is not a possible number of tokens"
    table.reasons[rows[fine & np.isnan(gibs)]] = f"{SIZE} is not a size"
    rows = rows[fine & ~np.isnan(gibs)]
    # How many times larger the weights are than those of the quant; 0 where no file of it can be so large
    scales = table.gibs[rows] * GIB / max(1.0, base.file_bytes)
    scales = np.where(table.gibs[rows] == 0, 1.0, scales * ((scales > 1 / OFF) & (scales < OFF)))
    usual = f"{SIZE} does not match this model in this quant, which is about {base.file_bytes / GIB:.1f} GiB"
    table.reasons[rows[scales == 0]] = usual
    rows, scales = rows[scales > 0], scales[scales > 0]
    spills = base.on_gpu_bytes * scales > base.room_bytes
    yield TablePart(base, rows[~spills], scales[~spills])
    for scale in np.unique(scales[spills]):
        same = rows[spills & (scales == scale)]
        blocks = block_of(table.depths[same])
        for block in np.unique(blocks):
            some = same[blocks == block]
            yield TablePart(spilled_base(cells, float(scale), float(block)), some, np.ones(len(some)))


@lru_cache(maxsize=MOST_KEPT)
def base_of(names: Cells) -> Base | Unknown:
    """What the cells of NAMES ask, or why they can't be understood."""
    row = dict(zip(NAMES, names, strict=True))
    if any(len(cell) > _LONGEST for cell in names):
        return Unknown(f"a cell has more than {_LONGEST} characters")
    if not row["model"].strip() or not row["hardware"].strip():
        return Unknown(f"no {'model' if not row['model'].strip() else 'hardware'} is named")
    if any(_TRICKS.search(row[column]) for column in ("test", "runtime", "kv_type")):
        why = "rows with speculative decoding or claimed speeds are not predicted: more than the hardware decides"
        return Unknown(why)
    gpus = cells_number(row["n_gpus"])
    if gpus is None or gpus > _MOST_GPUS:
        return Unknown(f"n_gpus {row['n_gpus']!r} is not a number of GPUs")
    try:
        found = parse_row(row)
        if isinstance(found, Unknown):
            return found
        if found.device.kind == "asic":
            return Unknown(f"no prediction for the {found.device.name}")
        return _base(found)
    except (UserError, ArithmeticError, ValueError) as error:  # a cell that no model or device can have
        return Unknown(str(error) or "its numbers are not possible")


def _base(found: AskedRow) -> Base:
    question, trust = question_of(found), trust_in(found.device, found.setting)
    groups = [group_of(found._replace(start=start)) for start in (0.0, DEEP_FROM)]
    shallow, deep = (spread_of(group, found.setting.backend) for group in groups)
    host = question.host
    lookup = (
        found.kind, question.setting, question.split, question.peers, host.setting if host else None,
        outline(question), found.year < PIPELINES_SINCE, bool(question.chip.watts),
    )  # fmt: skip
    texts = [
        f"catalog: {group}, {spread.configurations} configurations on {spread.devices} devices"
        for group, spread in zip(groups, (shallow, deep), strict=True)
    ]
    basis = "; ".join((texts[0], *trust.reasons)), "; ".join((texts[1], *trust.reasons))
    whole, tables = found.load.file_bytes, found.load.table_bytes
    room = float(found.device.capacity_bytes * found.gpus) if is_open(found) else math.inf
    return Base(found, question, trust, shallow, deep, basis, lookup, whole, room, whole - tables)


@lru_cache(maxsize=MOST_KEPT)
def spilled_base(names: Cells, scale: float, depth_block: float) -> Base:
    """The base of rows whose weights are larger than the memory, with what fits on the GPUs."""
    base = base_of(names)
    if isinstance(base, Unknown):
        raise TypeError(base.why)
    found = base.asked._replace(load=base.asked.load.scale(scale), start=depth_block - 1)
    other = _base(placed_row(found)._replace(start=0.0))
    return other._replace(asked=other.asked._replace(load=base.asked.load))  # the scaled one is large and done with


def table_rates(parts: Sequence[TablePart], depths: Floats) -> Rates:
    """The three speeds of each row of these parts, one part after the other; `depths` are those of the whole table."""
    bases = [part.base for part in parts]
    index = np.repeat(np.arange(len(parts)), [len(part.rows) for part in parts])
    depths = depths[np.concatenate([part.rows for part in parts])]
    scales = np.concatenate([part.scales for part in parts])
    asks = [base.asked for base in bases]
    tokens = _take([a.tokens for a in asks], index)
    is_prompt = asks[0].kind == "pp"
    question: SpeedQuestion = stack_values([base.question for base in bases], index)
    question = question._replace(depth=depths if is_prompt else depths + tokens / 2)
    if not (scales == 1).all():
        totals, host = question.totals, question.host
        question = question._replace(
            totals=totals.scale(scales) if totals else None,
            host=host._replace(totals=host.totals.scale(scales)) if host else None,
        )
    with np.errstate(all="ignore"):
        micro_batch = _take([a.micro_batch for a in asks], index)
        made = 1.0 if is_prompt else question.tokens
        seconds = prompt_token_seconds(question, tokens, micro_batch) if is_prompt else step_seconds(question)
        terms = prompt_terms(question, tokens, micro_batch) if is_prompt else step_terms(question)
        mid = np.broadcast_to(np.asarray(made / seconds, dtype=np.float64), index.shape)
        # The interval that was learned, wider where less is known, and never above the ceiling
        ceiling = np.divide(made, least_seconds(terms))
        is_deep = depths >= DEEP_FROM
        shallow, deep = [base.shallow for base in bases], [base.deep for base in bases]
        down = np.where(is_deep, _take([s.low for s in deep], index), _take([s.low for s in shallow], index))
        up = np.where(is_deep, _take([s.high for s in deep], index), _take([s.high for s in shallow], index))
        wider = _take([base.trust.wider for base in bases], index)
        top = np.maximum(mid, np.minimum(mid * up**wider, ceiling))
        return mid * down**wider, mid, top


def _take(values: Sequence[float], index: Indices) -> Floats:
    return np.asarray(values, dtype=np.float64)[index]
