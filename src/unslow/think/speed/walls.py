"""The walls of one token: what each part of its time costs, which one binds, and what halving it would give."""

from typing import NamedTuple

from unslow.think.speed.outcome import Outcome


class Wall(NamedTuple):
    """A part of the time of a step."""

    part: str
    seconds: float
    share: float
    binds: bool
    """Whether it is the largest: the one that is worth working on first."""
    halved: float
    """Tokens per second if this part took half as long."""


def walls(outcome: Outcome, tokens: float = 1.0) -> list[Wall]:
    """Every part of the step, the largest first."""
    parts = sorted(outcome.parts.items(), key=lambda part: -part[1])
    return [
        Wall(name, seconds, seconds / outcome.seconds, n == 0, tokens / (outcome.seconds - seconds / 2))
        for n, (name, seconds) in enumerate(parts)
        if seconds > 0
    ]
