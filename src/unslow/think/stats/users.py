"""What a server does for many users at once: one round of them, and where it gains nothing more from another one."""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from unslow.facts.bench import Pass
from unslow.think.stats.best_value import SweepVerdict

GAIN = 0.10  # Users beyond which the server gives less than this more, for twice as many, are beyond the knee
FALL = 0.10  # What counts as less than before: rounds of a calm machine differ by less
FAILING = 0.25
_ALIKE = 0.05
_WHOLE_WINDOW = 0.2
"""Of the time in which tokens came: a shorter stretch in which all were answered at once is none to judge by."""


class UsersPoint(NamedTuple):
    """So many users: medians over the rounds."""

    users: int
    together: float
    first_s: float
    at_once: int
    failed: float = 0.0  # The share of the requests that failed
    expected: float | None = None
    among: tuple[float, float] | None = None
    """The least and the most that a round gave together; None where there was one."""


class Burst(NamedTuple):
    """What came of one round of so many users at once."""

    together: float  # Tokens per second of all, while as many were answered at once as ever were
    at_once: int  # How many were generated for at the same time
    whole: bool  # Whether the figure is of a steady stretch; else of all the time in which tokens came


def judge_users(points: Sequence[UsersPoint], slots: int | None = None) -> SweepVerdict:
    """scales, saturates, queues, collapses or cannot_tell, on points with growing numbers of users.

    `slots` is what the server says it answers at once; best are the fewest users with which it does all that it can.
    """
    good = [point for point in points if point.together > 0]
    if len(good) < 2 or good[0].users >= good[-1].users:  # noqa: PLR2004 (a curve needs two points)
        lost = any(point.failed for point in points)
        why = "requests failed" if lost else "fewer than two user counts were measured"
        return SweepVerdict("cannot_tell", why, good[0].users if good else None)
    top = max(point.together for point in good)
    best = next(point for point in good if point.together >= (1 - _ALIKE) * top)
    limit = _slots_seen(good, slots)
    within = good if limit is None else [point for point in good if point.users <= limit]
    if found := _collapse(points, within, best):
        return found
    first, last = good[0], good[-1]
    # The users beyond which twice as many bring less than a tenth more
    knees = (n for n in range(len(within) - 1) if all(_gain(a, b) < GAIN for a, b in pairwise(within[n:])))
    if (knee := next(knees, None)) is not None:
        at = within[knee]
        why = f"{_users_get(at.users)} {at.together:.1f} tok/s together, {last.users} get {last.together:.1f}"
        why += f"; beyond {limit} they also wait for a slot" if limit is not None and last.users > limit else ""
        return SweepVerdict("saturates", why + _expected_words(last), best.users, at.users)
    if limit is not None:
        why = f"{limit} {'user is' if limit == 1 else 'users are'} served at once, so the others of {last.users} wait: "
        why += f"median time to first token {_time_words(last.first_s)}, {_time_words(first.first_s)} for one user"
        return SweepVerdict("queues", why + _expected_words(best), best.users, limit)
    why = f"{_users_get(last.users)} {last.together / first.together:.1f} times what {_users_get(first.users)}, "
    why += f"{last.together:.1f} tok/s together, still growing"
    return SweepVerdict("scales", why + _expected_words(last), best.users)


def _collapse(points: Sequence[UsersPoint], good: Sequence[UsersPoint], best: UsersPoint) -> SweepVerdict | None:
    """Where more users get less than fewer did, all together, or no answer."""
    failing = next((point for point in points if point.failed >= FAILING), None)
    if failing:
        why = f"{failing.failed:.0%} of the requests failed with {failing.users} users at once"
        below = [point.users for point in good if point.users < failing.users]
        return SweepVerdict("collapses", why, best.users, max(below, default=None))
    # Slower than the best by more than rounds differ
    slowest = best.among[0] if best.among else best.together
    slower = [p for p in good if p.users > best.users and p.together < (1 - FALL) * best.together]
    beyond = [p for p in slower if (p.among[1] if p.among else p.together) < slowest]
    if not beyond or beyond[-1] is not good[-1]:  # a dip that is made up for is none
        return None
    worst = beyond[0]
    why = f"{_users_get(worst.users)} {worst.together:.1f} tok/s together, {_users_get(best.users)} {best.together:.1f}"
    return SweepVerdict("collapses", why + _expected_words(worst), best.users, best.users)


def _slots_seen(good: Sequence[UsersPoint], slots: int | None) -> int | None:
    """How many are answered at once where users wait for each other; None where none does."""
    waiting = [point for point in good if point.at_once < point.users]
    if not waiting:
        return None
    if slots is not None:
        return slots if waiting[-1].users > slots else None  # else long prompts, not slots, kept them apart
    most = max(point.at_once for point in waiting)
    return most if waiting[-1].users >= 2 * most or len({point.at_once for point in waiting}) < len(waiting) else None


def _gain(a: UsersPoint, b: UsersPoint) -> float:
    return float((b.together / a.together) ** (1 / math.log2(b.users / a.users)) - 1)


def _expected_words(point: UsersPoint) -> str:
    if point.expected is None:
        return ""
    return f"; expected {point.expected:.0f} with {point.at_once} at once, measured {point.together:.0f}"


def _time_words(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def _users_get(users: int) -> str:
    return f"{users} users get" if users > 1 else "1 user gets"


def grows_no_more(points: Sequence[UsersPoint], slots: int | None = None) -> str:
    """Why more users need not be tried; empty where they should be."""
    if points and points[-1].failed:
        return f"requests failed with {points[-1].users} users"
    good = [point for point in points if point.together > 0]
    if len(good) < 3:  # noqa: PLR2004 (two doublings)
        return ""
    if all(_gain(a, b) < GAIN / 2 for a, b in pairwise(good[-3:])):
        return f"{good[-1].users} users get no more together than {good[-3].users}"
    limit = _slots_seen(good, slots)
    return f"only {limit} users are served at once" if limit is not None and good[-1].users >= 2 * limit else ""


def burst_of(passes: Sequence[Pass]) -> Burst | None:
    """The round's figures, by the client's clock; None where nothing was generated."""
    answered = [one for one in passes if one.client_last_token_s > one.client_first_token_s]
    if not answered:
        return None
    spans = [(one.started_s + one.client_first_token_s, one.started_s + one.client_last_token_s) for one in answered]
    at_once, since, until = _fullest(spans)
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    steady = until - since >= _WHOLE_WINDOW * (last - first)
    if not steady:
        since, until = first, last
    # The tokens after the first of each answer, as if they had come evenly
    came = sum(
        max(0, one.generated_tokens - 1) * max(0.0, min(until, end) - max(since, start)) / (end - start)
        for one, (start, end) in zip(answered, spans, strict=True)
    )
    return Burst(came / (until - since), at_once, steady)


def _fullest(spans: Sequence[tuple[float, float]]) -> tuple[int, float, float]:
    """The most that were answered at once, and from when to when: the first and the last moment it was so many."""
    edges = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    count, counts = 0, []
    for (at, step), (until, _) in pairwise(edges):
        count += step
        if until > at:
            counts.append((count, at, until))
    most = max(count for count, _, _ in counts)
    full = [(at, until) for count, at, until in counts if count == most]
    return most, full[0][0], full[-1][1]


def median_burst(bursts: Sequence[Burst]) -> Burst:
    """The round in the middle: its speed, and how many were answered at once in most rounds."""
    at_once = statistics.median_high([burst.at_once for burst in bursts])
    together = statistics.median(burst.together for burst in bursts)
    return Burst(together, at_once, all(burst.whole for burst in bursts))
