"""A GPU over time: the rows of a recording boiled down to what it did while the model was in its memory."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from statistics import fmean
from typing import Any, get_type_hints

from unslow.facts.bounded import fitting
from unslow.facts.run import GpuUnderLoad
from unslow.facts.units import MIB
from unslow.facts.values import NOT_LOOKED, Fact, Known, reported
from unslow.look.logs.nvidia_columns import row_fact, row_reasons
from unslow.look.logs.nvidia_smi_csv import GPU_SOURCE, Row, rows_by_gpu

# A loaded model still grows with its first requests, by 20 to 90 MiB in recordings (workspaces, graphs). What another
# process holds all the time must not count as loaded, though the model on top of it can be small beside it.
_NEAR_FRACTION = 0.02
_NEAR_BYTES = 64 * MIB
_TYPES = get_type_hints(GpuUnderLoad, include_extras=True)
_TIMESTAMP = re.compile(r"(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")


def summarise_series(
    rows: Sequence[Row], start: datetime | None = None, end: datetime | None = None, source: str = GPU_SOURCE
) -> tuple[GpuUnderLoad, ...]:
    """Each GPU over its loaded rows between `start` and `end`, which are in the clock of the rows' timestamps."""
    inside = [row for row in rows if _between(row, start, end)]
    return tuple(_summary(index, _loaded(of_gpu, source), source) for index, of_gpu in rows_by_gpu(inside).items())


def parse_timestamp(text: str) -> datetime | None:
    """The moment of a row, without a time zone, as nvidia-smi prints it."""
    match = _TIMESTAMP.search(text)
    if not match:
        return None
    try:
        return datetime.strptime(f"{match[1]}.{match[2] or 0}", "%Y/%m/%d %H:%M:%S.%f")  # noqa: DTZ007 (it tells none)
    except ValueError:
        return None


def _between(row: Row, start: datetime | None, end: datetime | None) -> bool:
    if start is None and end is None:
        return True
    moment = parse_timestamp(row.get("timestamp", ""))
    return moment is not None and (start is None or moment >= start) and (end is None or moment <= end)


def _loaded(rows: list[Row], source: str) -> list[Row]:
    """The rows while memory in use was near its maximum; without that column, all of them."""
    used = [row_fact(row, "vram_used_bytes", source).value_or(None) for row in rows]
    most = max((bytes_ for bytes_ in used if bytes_ is not None), default=None)
    if not most:
        return rows
    enough = most - max(_NEAR_FRACTION * most, _NEAR_BYTES)
    return [row for row, bytes_ in zip(rows, used, strict=True) if bytes_ is not None and bytes_ >= enough]


def _summary(index: int, rows: list[Row], source: str) -> GpuUnderLoad:
    def over(name: str, combine: Callable[[list[Any]], Any]) -> Fact[Any]:
        return _combined([row_fact(row, name, source) for row in rows], combine, source)

    facts = {
        "busy": over("busy", fmean),
        "memory_busy": over("memory_busy", fmean),
        "clock_hz": over("clock_hz", fmean),
        "temperature_max_c": over("temperature_c", max),
        "power_max_w": over("power_w", max),
        "vram_used_max_bytes": over("vram_used_bytes", max),
        "event_reasons": _reasons(rows, source),
        "pcie_generation_max_seen": over("pcie_generation", max),
        "pcie_width_max_seen": over("pcie_width", max),
    }
    return GpuUnderLoad(index=index, samples=len(rows), **{n: fitting(f, _TYPES[n]) for n, f in facts.items()})


def _combined(facts: list[Fact[Any]], combine: Callable[[list[Any]], Any], source: str) -> Fact[Any]:
    """The known values as one; where none is known, why the last one is not."""
    known = [fact.value for fact in facts if isinstance(fact, Known)]
    return reported(combine(known), source) if known else facts[-1] if facts else NOT_LOOKED


def _reasons(rows: list[Row], source: str) -> Fact[Any]:
    """Every reason that was ever set while the GPU worked; the idle rows between say nothing about the load."""
    working = [row for row in rows if row_fact(row, "busy", source).value_or(1) > 0]
    found = [row_reasons(row, source).get("event_reasons", NOT_LOOKED) for row in working]
    return _combined(found, lambda lists: list(dict.fromkeys(name for names in lists for name in names)), source)
