"""Alerts by cause, and the cases in which each must and must not fire; what they say comes from the cause itself."""

from functools import cache
from typing import Literal

import msgspec

from unslow.catalog import entries

Severity = Literal["critical", "warning", "info"]


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When it fires; `${cause.NAME}` is a number of that cause's own, `${place}` the labels of one target."""

    expr: str
    seen_by: str = ""
    """The exporter that tells, where the series do not carry that."""
    hold: str = ""
    """How long, where it is not that of the alert."""


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Series in the notation of `promtool test rules`, a sample a minute, and what has to come of them."""

    name: str
    series: dict[str, str]
    fires: tuple[str, ...] = ()
    """The labels of each that must fire, beside those that every alert has; none for a near miss."""
    at: tuple[str, ...] = ("30m",)
    cause: str = ""
    """Which one, where the alert is one for every cause."""
    seen_by: str = ""
    """Which condition tells, where there are several."""
    beside: tuple[str, ...] = ()
    """Other alerts that are right to fire too."""
    says: str = ""
    """The value as the alert words it, where that is checked too."""


class Alert(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reason to tell somebody; `cause` is empty where it is no cause that is seen but its effect."""

    hold: str
    severity: Severity
    source: str
    """Where the thresholds come from."""
    value: str
    """What the number of the alert is, as a template of Prometheus."""
    conditions: tuple[Condition, ...]
    cause: str = ""
    title: str = ""
    text: str = ""
    """What it means, and `to_do` what to do, where no cause tells."""
    to_do: str = ""
    where: str = "{{ $labels.instance }}{{ with $labels.model }} ({{ . }}){{ end }}"
    every_cause: bool = False
    """Whether there is one for each cause, by the findings of `unslow exporter`."""
    severity_of: dict[str, Severity] = {}
    left_out: dict[str, str] = {}
    """Causes that nobody needs to be told of, and why."""
    words: dict[str, str] = {}
    """What stands for `${word}` in the trials: the labels of a series, said once."""
    trials: tuple[Trial, ...] = ()


@cache
def alerts() -> dict[str, Alert]:
    """Every alert by its id."""
    return dict(entries("alerts", Alert))
