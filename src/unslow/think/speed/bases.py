"""What the rows of a table share: everything but the depth and the size of the file."""

import math
import re
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import NamedTuple

from unslow.catalog.learned_speed import Spread, spread_of
from unslow.facts.errors import UserError
from unslow.facts.units import GIB
from unslow.facts.values import Unknown
from unslow.think.speed.ask import question_of
from unslow.think.speed.group import DEEP_FROM, group_of
from unslow.think.speed.placing import is_open, placed
from unslow.think.speed.question import PIPELINES_SINCE, Question
from unslow.think.speed.rows import Asked, asked
from unslow.think.speed.stacked import outline
from unslow.think.speed.trust import Trust, trust_in

NAMES = (
    "model", "hardware", "test", "quant", "params_b", "n_gpus", "backend", "runtime", "ngl", "flash_attn", "kv_type",
    "threads", "batch", "date_or_build", "note",
)  # fmt: skip
"""The columns that are looked up; together they name a base."""
DEPTH, SIZE = "ctx_or_depth", "model_size_gib"
"""The columns whose numbers may differ from row to row."""
_TRICKS = re.compile(r"(?i)spec|mtp|draft|claimed")
_MOST_GPUS = 1024
_LONGEST = 1000
DEEPEST = 2.0**27
_NOTHING_SAID = frozenset({"none", "nan", "n/a", "-", "?", "short", "default"})
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d*)?")
MOST_KEPT = 20_000
"""Bases that are kept from one piece of a table to the next, of a few kB each."""
OFF = 8.0
"""How many times larger or smaller than the model in its quant a file may be said to be."""

Cells = tuple[str, ...]


class Base(NamedTuple):
    """What was understood of the names, with no depth and the size that the quant gives."""

    asked: Asked
    question: Question
    trust: Trust
    shallow: Spread
    deep: Spread
    basis: tuple[str, str]
    """Where the interval comes from, for a shallow and for a deep context."""
    lookup: Hashable
    """Bases with the same can be priced together."""
    file_bytes: float
    room_bytes: float
    """Of the GPUs, where the placement may have to be chosen; endless where it is said."""
    on_gpu_bytes: float
    """Of the weights, if all lie there that can."""


@lru_cache(maxsize=MOST_KEPT)
def base_of(names: Cells) -> Base | Unknown:
    """What the cells of NAMES ask, or why they can't be understood."""
    row = dict(zip(NAMES, names, strict=True))
    why = _refused(row)
    if why:
        return Unknown(why)
    try:
        found = asked(row)
        if isinstance(found, Unknown):
            return found
        if found.device.kind == "asic":
            return Unknown(f"the {found.device.name} does not run what is predicted here")
        return _base(found)
    except (UserError, ArithmeticError, ValueError) as error:  # a cell that no model or device can have
        return Unknown(str(error) or "its numbers can't be")


def _refused(row: Mapping[str, str]) -> str:
    """Why a row is not looked at any further; empty where it is."""
    if any(len(cell) > _LONGEST for cell in row.values()):
        return f"a cell has more than {_LONGEST} letters"
    if not row["model"].strip() or not row["hardware"].strip():
        return f"no {'model' if not row['model'].strip() else 'hardware'} is named"
    tricks = [_TRICKS.search(row[column]) for column in ("test", "runtime", "kv_type")]
    if any(tricks):
        return "drafted tokens and claims are not predicted: the speed is not the hardware's alone"
    gpus = number(row["n_gpus"])
    if gpus is None or gpus > _MOST_GPUS:
        return f"n_gpus {row['n_gpus']!r} is no number of GPUs"
    return ""


def _base(found: Asked) -> Base:
    question, trust = question_of(found), trust_in(found.device, found.setting)
    groups = [group_of(found._replace(start=start)) for start in (0.0, DEEP_FROM)]
    shallow, deep = (spread_of(group, found.setting.backend) for group in groups)
    host = question.host
    lookup = (
        found.kind, question.setting, question.split, question.peers, host.setting if host else None,
        outline(question), found.year < PIPELINES_SINCE, bool(question.chip.watts),
    )  # fmt: skip
    basis = (_basis(groups[0], shallow, trust), _basis(groups[1], deep, trust))
    whole, tables = found.load.file_bytes, found.load.table_bytes
    room = float(found.device.capacity_bytes * found.gpus) if is_open(found) else math.inf
    return Base(found, question, trust, shallow, deep, basis, lookup, whole, room, whole - tables)


def _basis(group: str, spread: Spread, trust: Trust) -> str:
    text = f"catalog: {group}, {spread.configurations} configurations on {spread.devices} devices"
    return "; ".join((text, *trust.reasons))


def size_refused(base: Base) -> str:
    """Why a size can't be."""
    return f"{SIZE} does not fit this model in this quant, which has about {base.file_bytes / GIB:.1f} GiB"


@lru_cache(maxsize=MOST_KEPT)
def spilled_base(names: Cells, scale: float, depth_block: float) -> Base:
    """The base of rows whose weights are larger than the memory, with what fits on the GPUs."""
    base = base_of(names)
    if isinstance(base, Unknown):
        raise TypeError(base.why)
    found = base.asked._replace(load=base.asked.load.scaled(scale), start=depth_block - 1)
    other = _base(placed(found)._replace(start=0.0))
    return other._replace(asked=other.asked._replace(load=base.asked.load))  # the scaled one is large and done with


@lru_cache(maxsize=100_000)
def number(cell: str) -> float | None:
    """The number in a cell, 0 for an empty one; None where it is none, negative or endless."""
    text = cell.strip()
    if not text or text.lower() in _NOTHING_SAID:
        return 0.0
    try:
        value = float(text.replace(",", "") if _THOUSANDS.fullmatch(text) else text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None
