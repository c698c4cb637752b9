"""How many users a fleet can serve at a goal: these fields are a promise to whoever reads the JSON."""

from typing import Literal

from unslow.think.fleet.report import Statement
from unslow.think.report import Range, Shown

SCHEMA = "unslow.capacity/1"
Basis = Literal["measured", "simulated", "cannot_tell"]


class Goal(Shown, frozen=True, kw_only=True):
    """What each user must get."""

    tokens_per_s: float | None = None
    first_token_s: float | None = None


class CurvePoint(Shown, frozen=True, kw_only=True):
    """So many requests at once on one instance, and what each of them got."""

    requests: float
    tokens_per_s: Range
    first_token_s: Range | None = None
    basis: Basis
    samples: int = 0


class Step(Shown, frozen=True, kw_only=True):
    """What one more of something buys."""

    what: str
    """Such as "one more instance on 2 GPUs"."""
    gpus: int
    users: Range | None
    """How many users more at the goal."""
    basis: Basis
    because: str = ""


class CapacityRow(Shown, frozen=True, kw_only=True):
    """A group of like instances."""

    runtime: str
    model: str
    devices: str
    instances: int
    gpus: int | None
    users_now: float | None
    """Requests at once over the group, mean."""
    users_peak: float | None
    users_at_goal: Range | None
    """Of the whole group; None where it can't be told."""
    basis: Basis
    limit: str = ""
    """What ends it: the speed of each, the first token, the KV cache, the places."""
    beyond: float | None = None
    """How many times the highest measured load the answer lies, where it is simulated from measurements."""
    points: tuple[CurvePoint, ...] = ()
    next: tuple[Step, ...] = ()
    because: str = ""
    """Why it can't be told, or what a simulation rests on."""
    notes: tuple[str, ...] = ()
    """What the answer leaves out: no first token told, an uneven balance."""


class CapacityReport(Shown, frozen=True, kw_only=True):
    """The table of a whole fleet."""

    schema: str = SCHEMA
    unslow_version: str
    prometheus: str
    taken_at: str
    span_s: float
    """How far back it looked."""
    queries: int
    seconds: float
    complete: bool
    goal: Goal
    statements: tuple[Statement, ...] = ()
    rows: tuple[CapacityRow, ...] = ()
