"""What is carried from the judgement of one instance to that of the fleet."""

from typing import NamedTuple

import msgspec

from unslow.think.fleet.report import Instance, Statement
from unslow.think.report import Scalar


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an instance beside its facts: who it is, and how it was seen."""

    key: str
    host: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    window_s: float
    by_itself: dict[str, float] = msgspec.field(default_factory=dict)
    """Causes that the exporter on its machine named, with the share of the window."""
    notes: tuple[str, ...] = ()


class Judged(NamedTuple):
    """An instance, and its known facts by path (`runtime.version`, `machine.gpus.0.power_limit_w`) to compare them."""

    instance: Instance
    facts: dict[str, Scalar]


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What the report says of how it came about."""

    unslow_version: str
    prometheus: str
    taken_at: str
    window_s: float
    queries: int
    seconds: float
    complete: bool
    statements: tuple[Statement, ...] = ()
