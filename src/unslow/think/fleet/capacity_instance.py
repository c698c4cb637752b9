"""How many requests at once one instance of a group serves at a goal, what ends it, and how that is known."""

import math
from collections.abc import Callable
from typing import NamedTuple

from unslow.think.fleet.capacity_beyond import Beyond, beyond
from unslow.think.fleet.capacity_curve import first_tokens_of, gaps_of
from unslow.think.fleet.capacity_limits import (  # fmt: skip
    CACHE,
    FIRST,
    SPEED,
    UNSEEN,
    Limit,
    by_cache,
    by_places,
    by_seconds,
    most,
    tightest,
)
from unslow.think.fleet.capacity_moments import Like
from unslow.think.fleet.capacity_physics import Steps, longer, steps, why_not
from unslow.think.fleet.capacity_report import Basis, Goal
from unslow.think.report import Range

NEARLY = 0.1
"""Of a request: a curve that ends so little below a whole number ends there."""
INSIDE = 1.1
"""Times the highest measured load: as far as a bin reaches."""
MOST_BY_PHYSICS = 512.0
"""Requests at once that physics alone is asked about."""
_ALONE = 1.5
"""Requests at once: a bin below it is that of one request alone."""
_FIRST_UNTOLD = "it tells no time to the first token, so only the speed is held against the goal"

_FIRST_UNSEEN = "the first token was not measured, so only the speed is held against the goal"


class Served(NamedTuple):
    """What one instance serves; without a limit it can't be told, and `because` says why."""

    basis: Basis
    limit: Limit | None = None
    because: str = ""
    gaps: Beyond | None = None
    firsts: Beyond | None = None
    steps: Steps | None = None
    """By physics alone, where nothing was measured."""
    others: tuple[Limit, ...] = ()
    """Cache and places, where something tells them."""
    farther: float | None = None
    """How many times the highest measured load the answer lies, where it is simulated from measurements."""
    notes: tuple[str, ...] = ()

    def users(self, instances: int) -> Range | None:
        """Of so many instances together, each with whole requests."""
        return whole_users(self.limit, instances) if self.limit else None


def whole_users(limit: Limit, instances: int) -> Range:
    """Whole requests on each of so many instances."""
    low, mid, high = (instances * math.floor(n + NEARLY) for n in (limit.low, limit.mid, limit.high))
    return Range(low=min(low, mid), mid=mid, high=max(mid, high))


def served(like: Like, goal: Goal, *, by_physics: bool = True) -> Served:
    """The answer for one instance of a group."""
    gaps, firsts = gaps_of(like.moments), first_tokens_of(like.moments)
    others = tuple(limit for limit in (by_cache(like.moments), by_places(like.moments, like.places)) if limit)
    if not gaps or (goal.tokens_per_s is None and not firsts):
        return _unmeasured(like, goal, others, by_physics=by_physics)
    curve = beyond(gaps, longer(like.case) if like.case and by_physics else None)
    until_first = beyond(firsts) if firsts else None
    limit = tightest([*others, *goal_limits(curve, until_first, goal)])
    notes = (_FIRST_UNTOLD,) if goal.first_token_s is not None and not until_first else ()
    found = Served("measured", limit, "", curve, until_first, others=others, notes=notes)
    return _with_basis(found, limit, curve)


def goal_limits(curve: Beyond, until_first: Beyond | None, goal: Goal) -> list[Limit]:
    """Where the speed and the first token leave the goal."""
    limits = [by_seconds(curve, 1 / goal.tokens_per_s, SPEED)] if goal.tokens_per_s is not None else []
    if goal.first_token_s is not None and until_first:
        limits.append(by_seconds(until_first, goal.first_token_s, FIRST))
    return limits


def _with_basis(found: Served, limit: Limit, curve: Beyond) -> Served:
    """Measured inside of what was seen; beyond it simulated, where the loads that were seen tell how it goes on."""
    first, last = curve.points[0].requests, curve.last
    if limit.mid > last * INSIDE:
        return _simulated(found, limit, curve)
    if limit.mid >= first - NEARLY or first < _ALONE:
        return found
    if not curve.told:
        because = f"only loads of about {first:.0f} at once were seen, and the goal was missed there"
        return found._replace(basis="cannot_tell", limit=None, because=because)
    return found._replace(basis="simulated", because=f"fewer than {first:.0f} at once on an instance were never seen")


def _simulated(found: Served, limit: Limit, curve: Beyond) -> Served:
    if not curve.told:
        return _one_load(found, limit, curve)
    farther = limit.mid / curve.last
    how = "by the line through what was measured" + (" and by physics" if curve.known_by_physics else "")
    if limit.what == CACHE:
        how += ", with as much cache for each request as was seen"
    end = "; what lies farther can't be told" if limit.what == UNSEEN else ""
    because = f"{farther:.1f} times the highest load seen ({curve.last:.0f} at once on an instance), {how}{end}"
    return found._replace(basis="simulated", farther=farther, because=because)


def _one_load(found: Served, limit: Limit, curve: Beyond) -> Served:
    """One load tells no slope: the worst that can be is that a step grows as fast as the requests."""
    because = (
        f"only loads of about {curve.last:.0f} at once were seen, so what one more adds can't be told; an instance "
        f"serves {math.floor(limit.low + NEARLY)} at least, if time grows no faster than the requests"
    )
    return found._replace(basis="cannot_tell", limit=None, because=because)


def _unmeasured(like: Like, goal: Goal, others: tuple[Limit, ...], *, by_physics: bool) -> Served:
    """By physics alone, where nothing was measured."""
    seen = f"only {len(like.moments)} moments with answers were seen" if like.moments else "nobody was answered"
    few = like.without or seen
    if goal.tokens_per_s is None:
        return Served("cannot_tell", because=f"{few}, and no time to the first token was told")
    case = like.case if by_physics else None
    step = steps(case) if case else None
    if step is None:
        lacks = why_not(case) if case else "too little of the machine is known for physics"
        return Served("cannot_tell", because=f"{few}; {lacks}")
    limit = tightest([*others, _by_steps(step, 1 / goal.tokens_per_s)])
    notes = (_FIRST_UNSEEN,) if goal.first_token_s is not None else ()
    return Served("simulated", limit, f"{few}: by physics alone", steps=step, others=others, notes=notes)


def _by_steps(step: Steps, goal_s: float) -> Limit:
    low, mid, high = (most(_column(step, at), goal_s, MOST_BY_PHYSICS) for at in (2, 1, 0))
    return Limit(UNSEEN if mid >= MOST_BY_PHYSICS else SPEED, low, mid, high)


def _column(step: Steps, at: int) -> Callable[[float], float]:
    return lambda requests: step(requests)[at]
