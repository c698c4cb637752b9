"""What the next GPU buys: one more like instance, or the same one cut over twice as many; and what a setting buys."""

from collections.abc import Callable, Iterator

import msgspec

from unslow.think.fleet.capacity_beyond import FARTHEST
from unslow.think.fleet.capacity_instance import Served, goal_limits, whole_users
from unslow.think.fleet.capacity_limits import CACHE, PLACES, SPEED, UNSEEN, Limit, most, tightest
from unslow.think.fleet.capacity_moments import Like
from unslow.think.fleet.capacity_physics import Steps, more_cache, over_twice_as_many, steps
from unslow.think.fleet.capacity_report import Goal, Step
from unslow.think.report import Range

_DOUBT = 1.25
"""Of what physics says that twice the GPUs gain: as the intervals of several GPUs in the catalogue of speeds are."""


def next_steps(like: Like, goal: Goal, found: Served) -> tuple[Step, ...]:
    """What can be had, the like instance first; nothing where the capacity can't be told."""
    if found.limit is None:
        return ()
    return (_one_more(like, found, found.limit), *_cut_in_two(like, goal, found), *_more_places(like, goal, found))


def _one_more(like: Like, found: Served, limit: Limit) -> Step:
    gpus = like.gpus_each
    on = "" if not gpus else f" on {gpus} GPU{'' if gpus == 1 else 's'}"
    even = "" if like.instances == 1 else "each instance serves its own, if requests are spread evenly"
    return Step(
        what=f"one more instance{on}", gpus=gpus or 0, users=whole_users(limit, 1), basis=found.basis, because=even
    )


def _cut_in_two(like: Like, goal: Goal, found: Served) -> Iterator[Step]:
    """Every layer over twice as many GPUs: a step is shorter, by physics, and beside the weights is more room."""
    case, limit = like.case, found.limit
    if case is None or limit is None or limit.what == UNSEEN or goal.tokens_per_s is None:
        return  # where it is not known what ends it now, nor is what twice the GPUs would gain
    twice = over_twice_as_many(case)
    now, then = steps(case), steps(twice) if twice else None
    if now is None or then is None:
        return
    room = [_with_more_room(limit, more_cache(case)) for limit in found.others]
    ended = tightest([*room, _shorter(found, now, then, 1 / goal.tokens_per_s), *_first_token(found, goal)])
    gpus = like.gpus_each or len(case.machine.gpus.value_or(()))
    yield Step(
        what=f"an instance over {2 * gpus} GPUs instead of {gpus}",
        gpus=gpus,
        users=_more(whole_users(ended, 1), whole_users(limit, 1)),
        basis="simulated",
        because=f"tensor parallel, by physics; then ended by: {ended.what}",
    )


def _with_more_room(limit: Limit, times: float) -> Limit:
    if limit.what != CACHE:
        return limit
    return limit._replace(low=limit.low * times, mid=limit.mid * times, high=limit.high * times)


def _first_token(found: Served, goal: Goal) -> list[Limit]:
    """As it is now: reading prompts gets faster too, by how much is not claimed."""
    if found.gaps is None:
        return []
    return goal_limits(found.gaps, found.firsts, msgspec.structs.replace(goal, tokens_per_s=None))


def _shorter(found: Served, now: Steps, then: Steps, goal_s: float) -> Limit:
    """Where the speed ends with twice the GPUs: what was measured, times what physics says that it shortens."""
    farthest = FARTHEST * (found.gaps.last if found.gaps else max(1.0, found.limit.mid if found.limit else 1.0))

    def seconds(column: int, doubt: float) -> Callable[[float], float]:
        known = found.gaps.seconds if found.gaps else now
        return lambda n: known(n)[column] * then(n)[1] / now(n)[1] * doubt

    ends = (seconds(2, _DOUBT), seconds(1, 1.0), seconds(0, 1 / _DOUBT))
    low, mid, high = (most(end, goal_s, farthest) for end in ends)
    return Limit(UNSEEN if mid >= farthest else SPEED, low, mid, high)


def _more_places(like: Like, goal: Goal, found: Served) -> Iterator[Step]:
    """Where places end it and nothing else would yet, a setting buys users without any GPU."""
    if found.limit is None or found.limit.what != PLACES or found.gaps is None:
        return
    others = [limit for limit in found.others if limit.what != PLACES]
    without = tightest([*others, *goal_limits(found.gaps, found.firsts, goal)])
    more = _more(whole_users(without, like.instances), whole_users(found.limit, like.instances))
    if more.mid > 0:
        yield Step(
            what="more places on the same GPUs",
            gpus=0,
            users=more,
            basis="simulated",
            because=f"a setting; then ended by: {without.what}",
        )


def _more(then: Range, now: Range) -> Range:
    """What is won, end by end: both rest on the same curve, so they are wrong together."""
    won = (then.low - now.low, then.mid - now.mid, then.high - now.high)
    return Range(low=min(won), mid=won[1], high=max(won))
