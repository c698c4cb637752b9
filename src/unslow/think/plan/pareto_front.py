"""The Pareto front of a search: the points worth showing, the one to take, and why not the others."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from unslow.think.plan.report import GoalShown, OptionShown, RejectedShown, SearchedShown

SAME = 0.01  # an unnoticeable difference, and far below what a prediction is off: no reason to turn a knob
MOST_SHOWN = 8
NEAR = (0, 10, 0, 0, 10, 10, 0)
"""For each thing that counts, by how many hundredths less of it the fastest is shown in place of the best: nobody
gives a third of the speed for a percent more context."""
P = TypeVar("P")


class Worth(NamedTuple):
    """A point by what counts; more is better in each."""

    speed: float  # Requests per second of one user
    context: float
    weight_bits: float
    cache_bits: float
    aggregate: float  # Tokens per second of as many users as find room
    left: float  # Of the devices' memory, what stays for others
    ease: float = 0.0  # How little has to be changed


class FrontAndChoice(NamedTuple):
    """The front and the recommendation; without one, the reason and what would help."""

    options: tuple[OptionShown, ...]
    recommended: int | None
    rejected: tuple[RejectedShown, ...]
    searched: SearchedShown
    notes: tuple[str, ...] = ()
    reason: str = ""
    hint: str = ""
    current: OptionShown | None = None  # What runs now


def pareto_front(points: Sequence[P], worth: Callable[[P], Worth], effort: Callable[[P], tuple[float, ...]]) -> list[P]:
    """The points that none dominates; of points that are alike, the one of the least effort."""
    best: dict[Worth, P] = {}
    for point in points:
        key = bin_worth(worth(point))
        if key not in best or effort(point) < effort(best[key]):
            best[key] = point
    kept: list[Worth] = []
    for key in sorted(best, reverse=True):  # whoever dominates a key is greater in this order
        if not any(all(a >= b for a, b in zip(other, key, strict=True)) for other in kept):
            kept.append(key)
    return [best[key] for key in kept]


def thin_front(points: Sequence[P], worth: Callable[[P], Worth], chosen: P | None) -> list[P]:
    """A few of a front: the chosen one, and in each thing the fastest of those that are nearly the best in it."""
    if not points:
        return []
    wanted = [chosen] if chosen is not None else []
    for axis in range(len(Worth._fields)):
        most = max(bin_worth(worth(p))[axis] for p in points)
        near = [p for p in points if bin_worth(worth(p))[axis] >= most - NEAR[axis]]
        wanted.append(max(near, key=lambda p: (bin_worth(worth(p)).speed, worth(p).ease, bin_worth(worth(p)))))
    unique = list(dict.fromkeys(wanted))[:MOST_SHOWN]
    return sorted(unique, key=worth, reverse=True)


def goal_rank(goal: GoalShown, worth: Worth) -> tuple[float, ...]:
    """What the goal wants most first; the larger the better."""
    fine = (worth.weight_bits, worth.cache_bits)
    speed, context = _bin(worth.speed), _bin(worth.context)
    if goal.aim == "context":
        return context, *fine, speed
    if goal.aim == "quality":
        return *fine, speed, min(context, _bin(goal.context))
    return speed, *fine, min(context, _bin(goal.context))


def bin_worth(worth: Worth) -> Worth:
    """The same with unnoticeable differences removed."""
    return worth._replace(
        speed=_bin(worth.speed), context=_bin(worth.context), aggregate=_bin(worth.aggregate), left=_bin(worth.left)
    )


def _bin(value: float) -> float:
    return math.floor(math.log(value) / math.log1p(SAME) + 1e-6) if value > 0 else -math.inf
