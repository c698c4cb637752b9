"""The search: every combination of the discrete knobs, and of the share of memory only the values that can matter.

Why that is exact: with all other knobs fixed, a larger share never gives a smaller cache. So nothing gets worse with
it: neither the conversations at once, nor what stays cached, nor the longest context. The largest share that the cards
have free is therefore the best in all of these, and where it does not serve the goal no smaller one does. The least
share that still gives the same speed is found by halving; every other one is as fast as one of the two, and gives up
either memory or context for nothing. What is set now is kept where it is as good: a share between the two, a longer
context. Context beyond the goal costs no time: vLLM hands out pages, the limit reserves nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

from unslow.think.physics.search import largest
from unslow.think.plan.frontier import Worth
from unslow.think.plan.report import SearchedShown
from unslow.think.plan.vllm.memory import LEAST_SHARE, STEP, Pool
from unslow.think.plan.vllm.question import Choice, Question
from unslow.think.plan.vllm.space import choices
from unslow.think.plan.vllm.speed import Pace, Served

CACHE_BITS = {"auto": 16.0, "bfloat16": 16.0, "float16": 16.0, "nvfp4": 4.5}


class Point(NamedTuple):
    """A choice with what it gives."""

    choice: Choice
    served: Served
    worth: Worth
    changed: tuple[str, ...]
    """The knobs that differ from what is now."""


class Searched(NamedTuple):
    """All points that can be the best at something."""

    points: tuple[Point, ...]
    seen: SearchedShown


class Search:
    """One question with the sums that its choices share."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.pool = Pool(question)
        self.pace = Pace(question)

    def all_points(self) -> Searched:
        """The points of every combination that serves the goal at all."""
        found: list[Point] = []
        every = priced = 0
        for choice in choices(self.question, self.pool):
            shares = shares_of(choice.share)
            every += max(1, len(shares))
            if not shares or not self.pool.serves(choice):
                continue
            points = list(self._points(choice, shares))
            priced += len(points)
            found += points
        return Searched(tuple(found), SearchedShown(combinations=every, priced=priced, laid_out=len(found)))

    def _points(self, choice: Choice, shares: list[float]) -> Iterator[Point]:
        """With the least share that is as fast as the largest, and with the largest and all the context that it has."""
        least = choice._replace(share=self.least_share(choice, shares))
        if self.question.exact_context:
            yield self.point(least)
            yield self.point(choice)
            return
        set_now = least._replace(context=max(choice.context, self.question.now.context))
        yield self.point(set_now if self.pool.serves(set_now) else least)
        yield self.point(choice._replace(context=self.pool.longest(choice)))

    def least_share(self, choice: Choice, shares: list[float]) -> float:
        """The least share with which the speed is that of the largest one; what is set now where that is enough."""
        wanted = self._places(choice)

        def lacking(number: int) -> float:
            less = choice._replace(share=shares[-1 - number])
            return 0.0 if self.pool.serves(less) and self._places(less) == wanted else -1.0

        steps = largest(0, len(shares) - 1, lacking) or 0
        now = self.question.now.share
        return max(shares[-1 - steps], min(now, choice.share))

    def point(self, choice: Choice) -> Point:
        """A choice priced."""
        at_once, keeps = self._places(choice)
        served = self.pace.served(choice, at_once, self.question.goal.users, keeps=keeps)
        changed = differing(choice, self.question.now)
        return Point(choice, served, self._worth(choice, served, len(changed)), changed)

    def _places(self, choice: Choice) -> tuple[int, bool]:
        """How many of the users find a place at once, and whether all that they said before stays cached."""
        holds, users = self.pool.holds(choice), self.question.goal.users
        return max(1, min(holds, choice.sequences, users)), holds >= users and self.question.prefix_caching

    def _worth(self, choice: Choice, served: Served, changes: int) -> Worth:
        of = self.question.checkpoints[choice.checkpoint]
        most = max(1, min(self.pool.holds(choice), choice.sequences))
        full = self.pace.served(choice, most, most, keeps=self.question.prefix_caching)
        return Worth(
            speed=1 / served.request_s.mid,
            context=float(choice.context),
            weight_bits=of.bits,
            cache_bits=CACHE_BITS.get(choice.kv, 8.0),
            aggregate=most * self.question.goal.answer_tokens / full.request_s.mid,
            left=len(self.question.hardware.rooms) - choice.cards * choice.share,
            ease=-float(changes),
        )


def shares_of(most: float) -> list[float]:
    """The shares that are looked at, in steps of a hundredth; where less than the least is free, that alone."""
    if most <= 0:
        return []
    count = max(0, round((most - LEAST_SHARE) / STEP))
    return [round(most - STEP * n, 2) for n in range(count, -1, -1)]


def differing(choice: Choice, now: Choice) -> tuple[str, ...]:
    """The knobs that differ; a context is only counted as changed where it is another than what is set."""
    return tuple(name for name in Choice._fields if getattr(choice, name) != getattr(now, name))
