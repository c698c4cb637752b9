"""The rows of the dashboard for Grafana: what each panel asks, and how it is drawn."""

from functools import cache
from typing import Literal

import msgspec

from unslow.catalog import entries

Kind = Literal["timeseries", "stat", "table", "causes"]


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One expression and the name of its lines; `$engine`, `$own` and `$where` are the variables as label matchers."""

    expr: str
    legend: str = ""


class Panel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A picture of `width` out of 24 columns; `why` says what to look for."""

    title: str
    why: str
    queries: tuple[Query, ...] = ()
    kind: Kind = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    most: float | None = None
    """Of the axis."""
    alert_at: str = ""
    """Where its alert begins, drawn as a line; `${cause.NAME}` is a number of that cause's own."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Panels that answer one question."""

    order: int
    title: str
    panels: tuple[Panel, ...]
    closed: bool = False


@cache
def dashboard_rows() -> tuple[Row, ...]:
    """All of them, from the top."""
    return tuple(sorted((row for _, row in entries("dashboard", Row)), key=lambda row: row.order))
