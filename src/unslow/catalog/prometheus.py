"""Exporters, recording rules, alerts and the dashboard of a Prometheus: TOML, found by presence."""

from functools import partial
from typing import Literal

import msgspec

from unslow.catalog import entries

ExporterSubject = Literal["engine", "gpu", "host", "pods", "own"]
Severity = Literal["critical", "warning", "info"]
PanelKind = Literal["timeseries", "stat", "table", "causes"]


class Exporter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one program reports about a target, by the names of `fleet/member.py` or of what those are computed from.

    Exporters that a Prometheus may scrape, and how a fleet is read of each: one TOML for each, found by presence. An
    expression is PromQL with some things left open: `{}` takes the user's matchers, `[W]` the window, `[W:S]` a
    subquery over it and `N` the number of its steps. Before the expressions of a reading stands how series of one
    target are put together: `sum`, `avg`, `max`, `min`, `count`, or nothing. Where there are several expressions, the
    first that a target answers holds.
    """

    of: ExporterSubject
    anchor: str  # The metric that every target of it has: counted first, to know whether it is there and how often
    source: str
    runtime: str = ""
    vendor: str = ""
    own: tuple[str, ...] = ()  # Labels that the program itself puts on its series: those of the target are the rest
    not_with: tuple[str, ...] = ()
    """Labels of a program that reports engines under the same names, such as a router, and is not one."""
    same: tuple[str, ...] = ()  # Labels of ranks that all report the same
    counter: str = ""  # The one that falls where the program starts anew
    info: str = ""
    info_is: str = ""  # The reading that the value of the information is, where it is one
    info_labels: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    """Readings that are asked for a second time, of the time that the window is compared with."""
    labels: dict[str, tuple[str, ...]] = {}
    """Where something is told by a label of its own: model, name, index, identity, driver."""
    readings: dict[str, tuple[str, ...]] = {}


class RecordingWay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one exporter reports a quantity; `labels` are added, so that two ways never write the same series."""

    expr: str
    labels: dict[str, str] = {}


class RecordedQuantity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A quantity; `record` is `level:metric:operations`, as Prometheus has its names."""

    record: str
    why: str
    ways: tuple[RecordingWay, ...]


class Recordings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of quantities in the order in which they are computed; `order` is that of the groups."""

    order: int
    source: str  # Where the names of the metrics were read
    rules: tuple[RecordedQuantity, ...]
    wrap: str = "EXPR"
    """Put around every expression, in place of the word EXPR: what gives all of the group the same labels."""


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When it fires; `${cause.NAME}` is a number of that cause's own, `${place}` the labels of one target."""

    expr: str
    seen_by: str = ""  # The exporter that reports it, where the series do not say
    hold: str = ""  # How long, where it is not that of the alert


class AlertTrial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Series in the notation of `promtool test rules`, a sample a minute, and what has to come of them."""

    name: str
    series: dict[str, str]
    fires: tuple[str, ...] = ()
    """The labels of each that must fire, beside those that every alert has; none for a near miss."""
    at: tuple[str, ...] = ("30m",)
    cause: str = ""  # Which one, where the alert is one for every cause
    seen_by: str = ""  # Which condition fires, where there are several
    beside: tuple[str, ...] = ()  # Other alerts that are right to fire too
    says: str = ""  # The value as the alert words it, where that is checked too


class Alert(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reason to alert; `cause` is empty where only an effect is visible."""

    hold: str
    severity: Severity
    source: str  # Where the thresholds come from
    value: str  # What the number of the alert is, as a template of Prometheus
    conditions: tuple[Condition, ...]
    cause: str = ""
    title: str = ""
    text: str = ""  # What it means, and `to_do` what to do, where no cause says it
    to_do: str = ""
    where: str = "{{ $labels.instance }}{{ with $labels.model }} ({{ . }}){{ end }}"
    every_cause: bool = False  # Whether there is one for each cause, by the findings of `unslow exporter`
    severity_of: dict[str, Severity] = {}
    left_out: dict[str, str] = {}  # Causes without an alert, and why
    words: dict[str, str] = {}  # What stands for `${word}` in the trials: the labels of a series, said once
    trials: tuple[AlertTrial, ...] = ()


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One expression and the name of its lines; `$engine`, `$own` and `$where` are the variables as label matchers."""

    expr: str
    legend: str = ""


class Panel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A picture of `width` out of 24 columns; `why` says what to look for."""

    title: str
    why: str
    queries: tuple[Query, ...] = ()
    kind: PanelKind = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    most: float | None = None  # Of the axis
    alert_at: str = ""  # Where its alert begins, drawn as a line; `${cause.NAME}` is a number of that cause's own


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Panels that answer one question."""

    order: int
    title: str
    panels: tuple[Panel, ...]
    closed: bool = False


exporters = partial(entries, "exporters", Exporter)  # Every exporter by the name of its file
alerts = partial(entries, "alerts", Alert)  # Every alert by its id


def exporters_of(of: ExporterSubject) -> dict[str, Exporter]:
    """Those about engines, GPUs, hosts, pods, or of our own diagnosis."""
    return {name: one for name, one in exporters().items() if one.of == of}


def recordings() -> dict[str, Recordings]:
    """The groups by name, in the order in which each may use those before it."""
    return dict(sorted(entries("recordings", Recordings).items(), key=lambda named: named[1].order))


def recording_expression(group: Recordings, way: RecordingWay) -> str:
    """What is computed, with what the group puts around it; lines that go on are set in."""
    inner = way.expr.strip()
    if group.wrap == "EXPR":
        return inner
    return group.wrap.strip().replace("EXPR", "\n".join(["", *(f"  {line}" for line in inner.splitlines()), ""]))


def dashboard_rows() -> tuple[Row, ...]:
    """All of them, from the top."""
    return tuple(sorted(entries("dashboard", Row).values(), key=lambda row: row.order))
