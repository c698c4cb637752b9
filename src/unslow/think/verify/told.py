"""What is known of a comparison beside its two sides."""

from typing import NamedTuple

from unslow.think.plan.report import OptionShown
from unslow.think.verify.answers import ALLOWED
from unslow.think.verify.report import Way


class Told(NamedTuple):
    """What is known beside the two sides."""

    unslow_version: str
    machine: str = ""
    way: Way = "in_turns"
    allowed: float = ALLOWED
    option: OptionShown | None = None
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    ended: str = ""
    """Why it ended before its time, where a server was the reason."""
    answers: bool = True
    """Whether they were to be compared."""
    asked_s: float | None = None
    took_s: float | None = None
    """How long it was to take, and took."""
