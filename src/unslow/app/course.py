"""How long a diagnosis may measure, what it did measure, and what it had no time for."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from unslow.think.measuring.measurement import Choice

Ended = Literal["enough", "late", "stopped"]


class Limits(NamedTuple):
    """What the user gives it time for."""

    seconds: float
    """From the first look to the report."""
    seconds_per_completion: float
    patience: float = 1.0
    """How much longer than usual a trial may take, and how much less may come of it."""
    only: tuple[str, ...] = ()
    """The measurements to make, where not all that are worth it are wanted."""


QUICK, USUAL, THOROUGH = Limits(10.0, 0.7, 0.5), Limits(60.0, 4.0), Limits(300.0, 6.0, 2.5)
_MOST_LISTED = 2
SHORTEST_S, LONGEST_S = 5.0, 3600.0
_A_SPEED = 15.0
"""Completions in all of the time: five of them may be needed, and leave most of it to other measurements."""


def limits_of(seconds: float) -> Limits:
    """The limits for a time between the usual ones."""
    like = QUICK if seconds <= QUICK.seconds else USUAL if seconds < THOROUGH.seconds else THOROUGH
    each = min(like.seconds_per_completion, max(QUICK.seconds_per_completion, seconds / _A_SPEED))
    return like._replace(seconds=seconds, seconds_per_completion=each)


class Step(NamedTuple):
    """One measurement: the number of the subject, and which."""

    subject: int
    name: str


class Course(msgspec.Struct, frozen=True):
    """How the measuring went: enough for a recording to go the same way."""

    steps: tuple[Step, ...] = ()
    ended: Ended = "enough"
    seconds: float = 0.0


def notes_on(course: Course, missing: Sequence[Choice]) -> tuple[str, ...]:
    """What a reader must know of a diagnosis that ended before it had enough."""
    if course.ended == "stopped":
        rest = f", before {_listed(missing)}" if missing else ", when nothing more was worth measuring"
        return (f"The measuring was stopped after {course.seconds:.0f} s{rest}.",)
    if course.ended == "late" and missing:
        return (f"There was no time for {_listed(missing)}; --thorough takes up to {THOROUGH.seconds:.0f} s.",)
    return ()


def _listed(choices: Sequence[Choice]) -> str:
    words = "; ".join(f"{c.measurement.doing}, {c.measurement.why}" for c in choices[:_MOST_LISTED])
    more = len(choices) - _MOST_LISTED
    return f"{words}; and {more} more" if more > 0 else words
