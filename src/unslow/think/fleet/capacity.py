"""How many users groups of like instances can serve at a goal: measured where that load was there, else simulated."""

import math
from collections.abc import Iterable, Iterator

from unslow.think.fleet.capacity_instance import Served, served
from unslow.think.fleet.capacity_moments import Like
from unslow.think.fleet.capacity_next import next_steps
from unslow.think.fleet.capacity_points import points_of
from unslow.think.fleet.capacity_report import CapacityRow, Goal

MOST_BY_PHYSICS = 200
"""Groups, the largest first, for which physics is asked, which takes some tenths of a second for each."""
UNEVEN = 1.5
"""Times the mean: from there on it is worth a word that the load is not balanced."""


def rows_of(likes: Iterable[Like], goal: Goal) -> Iterator[CapacityRow]:
    """One row for each group, those with most users first."""
    for place, like in enumerate(
        sorted(likes, key=lambda like: (-(like.load.mean or 0.0), -like.instances, like.model))
    ):
        yield row_of(like, goal, by_physics=place < MOST_BY_PHYSICS)


def row_of(like: Like, goal: Goal, *, by_physics: bool = True) -> CapacityRow:
    """The row of one group."""
    found = served(like, goal, by_physics=by_physics)
    return CapacityRow(
        runtime=like.runtime,
        model=like.model,
        devices=like.devices,
        instances=like.instances,
        gpus=like.gpus_each * like.instances if like.gpus_each is not None else None,
        users_now=like.load.mean,
        users_peak=like.load.peak,
        users_at_goal=found.users(like.instances),
        basis=found.basis,
        limit=found.limit.what if found.limit else "",
        beyond=found.farther,
        points=points_of(found),
        next=next_steps(like, goal, found),
        because=found.because,
        notes=tuple(_notes(like, found)),
    )


def _notes(like: Like, found: Served) -> Iterator[str]:
    yield from found.notes
    each = found.users(1)
    if each and each.mid and like.load.peak and like.load.peak > each.mid * like.instances:
        more = math.ceil(like.load.peak / each.mid) - like.instances
        needed = "1 instance more" if more == 1 else f"{more} instances more"
        yield f"at the peak there were more than the goal allows: that needs {needed}"
    if (like.load.uneven or 0.0) >= UNEVEN and found.limit:
        yield (
            f"at its busiest the fullest tenth of the instances had {like.load.uneven:.1f} times as many requests as "
            "the mean: the users at the goal are those of an even balance"
        )
