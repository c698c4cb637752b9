"""How many requests at once an instance answers before something ends it: speed, first token, cache or places."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from unslow.think.fleet.capacity_beyond import FARTHEST, Beyond
from unslow.think.fleet.capacity_curve import FEWEST, spread
from unslow.think.fleet.capacity_moments import Moment

SPEED, FIRST, CACHE, PLACES = "speed of each", "first token", "KV cache", "places"
UNSEEN = "nothing that was seen"
FULL = 0.9
"""Of the cache in use: from there on the next conversation soon finds no room."""
_ENOUGH_CACHE = 0.05
"""Of the cache in use: of less, rounding decides what one request takes."""
_WAITED = 0.5
"""Requests that wait, in the mean of a window: from there on there were no places left."""
_MORE = 1.2
"""Times as many: more than windows of one load differ by."""
_STEPS = 40
"""Halvings of a span of requests."""


class Limit(NamedTuple):
    """Requests at once of one instance, and what ends it."""

    what: str
    low: float
    mid: float
    high: float


def by_seconds(curve: Beyond, goal_s: float, what: str) -> Limit:
    """The most requests whose seconds stay below the goal, no farther out than can be told."""
    low, mid, high = (_most(curve, goal_s, column) for column in (2, 1, 0))
    if mid >= curve.last * FARTHEST:
        what = UNSEEN
    return Limit(what, low, mid, high)


def by_cache(moments: Sequence[Moment]) -> Limit | None:
    """Requests that would fill the KV cache, each as long as those that were seen; None where nothing tells."""
    shares = [(m.requests, m.cache_used) for m in moments if m.cache_used and m.cache_used >= _ENOUGH_CACHE]
    if len(shares) < FEWEST:
        return None
    low, mid, high = spread(requests / used for requests, used in shares)
    return Limit(CACHE, low, mid, high)


def by_places(moments: Sequence[Moment], told: float | None) -> Limit | None:
    """What the runtime says it answers at once, else as many as it answered while others waited and memory was left."""
    if told:
        return Limit(PLACES, told, told, told)
    waited = [m.requests for m in moments if (m.waiting or 0.0) >= _WAITED and (m.cache_used or 0.0) < FULL]
    if len(waited) < FEWEST:
        return None
    low, mid, high = spread(waited)
    more = sum(m.requests > high * _MORE and (m.waiting or 0.0) < _WAITED for m in moments)
    # where others answered more with nobody waiting, it was not for want of places
    return Limit(PLACES, low, mid, high) if more < FEWEST else None


def tightest(limits: Sequence[Limit]) -> Limit:
    """What ends it first; the interval is that of all together."""
    first = min(limits, key=lambda limit: limit.mid)
    return first._replace(low=min(limit.low for limit in limits), high=min(limit.high for limit in limits))


def _most(curve: Beyond, goal_s: float, column: int) -> float:
    return most(lambda requests: curve.seconds(requests)[column], goal_s, curve.last * FARTHEST)


def most(seconds: Callable[[float], float], goal_s: float, farthest: float) -> float:
    """The largest load up to there whose seconds, which never fall, reach the goal; 0 where not even one does."""
    if seconds(1.0) > goal_s:
        return 0.0
    if seconds(farthest) <= goal_s:
        return farthest
    low, high = 1.0, farthest
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if seconds(middle) <= goal_s else (low, middle)
    return low
