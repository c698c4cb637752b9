"""What was seen of a group of like instances: moments with so many requests at once, and what each of them got."""

from typing import NamedTuple

import msgspec

from unslow.facts.snapshot import Case


class Moment(NamedTuple):
    """One instance over one short window."""

    requests: float
    """How many requests shared the step in which a token was made, in the mean over tokens."""
    gap_s: float
    """Seconds between two tokens of one request."""
    first_token_s: float | None = None
    waiting: float | None = None
    cache_used: float | None = None


class Load(NamedTuple):
    """Requests at once of a whole group over the time that was looked at."""

    mean: float | None = None
    peak: float | None = None
    """None where nobody tells how many requests there were, which is not that there were none."""
    uneven: float | None = None
    """How many times the mean of all instances the fullest tenth of them had, in the busiest moments."""


class Like(msgspec.Struct, frozen=True, kw_only=True):
    """Instances with the same runtime, model and devices."""

    runtime: str
    model: str
    devices: str
    instances: int
    gpus_each: int | None = None
    moments: tuple[Moment, ...] = ()
    load: Load = Load()
    places: float | None = None
    """Requests that one instance answers at once, where it tells."""
    case: Case | None = None
    """One of them as facts, for physics."""
    without: str = ""
    """Why there are no moments, where there are none."""
