"""What is carried from the judgement of one instance to that of the fleet."""

from typing import NamedTuple

import msgspec

from unslow.think.causes import all_causes
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
    by_itself_s: dict[str, float] = msgspec.field(default_factory=dict)
    """Seconds that these take of every token, where it can tell."""
    notes: tuple[str, ...] = ()


def weightiest_first(about: About) -> tuple[str, ...]:
    """What the exporter named: first what costs most, then what was there longest; what another explains comes last."""
    named, cost_s, known = about.by_itself, about.by_itself_s, all_causes()
    follows = {effect for cause in named if cause in known for effect in known[cause].explains}
    return tuple(sorted(named, key=lambda cause: (cause in follows, -cost_s.get(cause, 0.0), -named[cause], cause)))


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
