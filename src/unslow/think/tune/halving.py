"""Successive halving: every round measures all that are left in turns, and after each stage the slower half goes.

A stage gets the same share of the time as every other, so that the fewer are left, the more rounds each of them has.
Two leave earlier: whoever fails, and whoever is surely slower than the leader. The references stay until the interval
of the leader's gain over them is narrow. Only measurements decide, so the same ones always end the same way.
"""

import math
import statistics
from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import NamedTuple

from unslow.think.bench.pairs import typical
from unslow.think.bench.spread import CONFIDENCE
from unslow.think.verify.gain import Gain, gain_of
from unslow.think.verify.rounds import FIRST_LOOK, is_look, is_narrow, paired
from unslow.think.verify.verdict import verdict_of

FIRST_SHARE = 0.5
"""Of the time, for the first round: what is measured once has still to be measured again."""
FEWEST_PAIRS = 3
"""Of rounds, before anybody is called slower: two can agree by chance."""
WORTH = 0.01
"""Of speed, as a logarithm: whoever is slower by less may as well stay."""


class Turn(NamedTuple):
    """Whom to measure next, and in which round."""

    candidate: int
    round: int


class Dropped(NamedTuple):
    """Why somebody left, and in which round."""

    why: str
    round: int


class Halving:
    """Who is measured next, who is left, and who leads; the indexes are those of the candidates."""

    def __init__(self, count: int, budget_s: float, references: Collection[int] = (0,), seed: int = 0) -> None:
        self.budget_s, self.references = budget_s, frozenset(references)
        self.alive = list(range(count))
        self.dropped: dict[int, Dropped] = {}
        self.levels: list[dict[int, float]] = [{} for _ in range(count)]
        """By candidate: the logarithm of its speed in each round."""
        self.took_s: list[list[float]] = [[] for _ in range(count)]
        self.spent_s = 0.0
        self.round = 1
        self.end = ""
        """Why it is over; empty while it is not."""
        self._seed = seed
        self._queue = sorted(self.alive, key=lambda index: (index not in self.references, index))
        self._rounds_left = 1

    def next(self) -> Turn | None:
        """The next to measure; None where it is over."""
        while not self.end:
            if not self._queue:
                self._close_round()
            elif self._has_time(self._queue[0]):
                return Turn(self._queue[0], self.round)
            elif self.round == 1:
                self._leave_out()
            else:
                self.finish("the time is over")
        return None

    def note(self, index: int, took_s: float, request_s: Sequence[float]) -> None:
        """What a turn measured: how long all of it took, and each request of it."""
        self._spend(index, took_s)
        self.levels[index][self.round] = -math.log(statistics.median(request_s))

    def fail(self, index: int, took_s: float, why: str) -> None:
        """A turn in which it did not run, or did not answer: it leaves."""
        self._spend(index, took_s)
        self._drop(index, why)

    def finish(self, why: str) -> None:
        """It is over; those that were never measured leave."""
        self.end, self._queue = self.end or why, []
        for index in [index for index in self.alive if not self.levels[index]]:
            self._drop(index, f"not measured: {why}")

    @property
    def leader(self) -> int | None:
        """The fastest of those left, by the rounds that all of them have; of equals the first."""
        known = [index for index in self.alive if self.levels[index]]
        scores = self._scores(known)
        return max(known, key=lambda index: (scores[index], -index), default=None)

    def gain(self, over: int, of: int, confidence: float = CONFIDENCE) -> Gain | None:
        """How much faster one is than another, by their common rounds; None where they have none."""
        pairs = paired(self.levels[over], self.levels[of])
        return gain_of(pairs, confidence) if pairs else None

    def best_gain(self, over: int, of: int) -> Gain | None:
        """The same of one that was chosen as the best of all measured: by chance alone, one of many looks faster.

        With each of them wrong in one of twenty shared by all, the whole is (Bonferroni); faster is the only side.
        """
        tried = sum(1 for index, levels in enumerate(self.levels) if levels and index != over)
        return self.gain(over, of, max(CONFIDENCE, 1 - 2 * (1 - CONFIDENCE) / max(1, tried)))

    def estimate_s(self, index: int) -> float:
        """How long its next turn takes: as long as its own, else as that of others; 0 where nobody was measured."""
        own = self.took_s[index] or [took for every in self.took_s for took in every]
        return statistics.median(own) if own else 0.0

    def _spend(self, index: int, took_s: float) -> None:
        self.spent_s += took_s
        self.took_s[index].append(took_s)
        self._queue = [other for other in self._queue if other != index]

    def _drop(self, index: int, why: str) -> None:
        self.alive.remove(index)
        self.dropped[index] = Dropped(why, self.round)

    def _has_time(self, index: int) -> bool:
        late = self.spent_s + self.estimate_s(index) > self.budget_s
        if self.spent_s == 0.0:
            return True
        first = self.round == 1 and index not in self.references
        return not late and not (first and self.spent_s + self.estimate_s(index) > FIRST_SHARE * self.budget_s)

    def _leave_out(self) -> None:
        """Not all can be measured even once and then again: the rest of the round is left out."""
        for index in list(self._queue):
            self._drop(index, "not measured: there is no time for it; give more with --seconds")
        self._queue = []

    def _close_round(self) -> None:
        """After a round: who is surely slower goes, and at the end of a stage the slower half."""
        looks = self.round <= FIRST_LOOK or is_look(self.round)  # each look is another chance to be wrong
        if looks:
            self._drop_slower()
        self._rounds_left = self._rounds_of_stage(self.budget_s) if self.round == 1 else self._rounds_left
        self._rounds_left -= 1
        if self._rounds_left <= 0:
            self._halve()
            self._rounds_left = self._rounds_of_stage(self.budget_s - self.spent_s)
            looks = True
        if looks and self._is_decided():
            return
        self.round += 1
        self._queue = self._order()

    def _order(self) -> list[int]:
        """By lot, and in the next round the other way round: a machine that slowly gets slower harms nobody."""

        def lot(index: int) -> bytes:
            return blake2b(f"{self._seed} {self.round // 2} {index}".encode(), digest_size=8).digest()

        return sorted(self.alive, key=lot, reverse=bool(self.round % 2))

    def _drop_slower(self) -> None:
        leader = self.leader
        for index in [index for index in self.alive if index != leader]:
            gain = self.gain(index, leader) if leader is not None else None
            if gain is None or gain.pairs < FEWEST_PAIRS or gain.low <= WORTH:
                continue
            if index not in self.references or is_narrow(gain):
                self._drop(index, _slower(gain))

    def _halve(self) -> None:
        """References don't count, and don't leave; one other is left to the end."""
        scores = self._scores(self.alive)
        ranked = sorted(self._others, key=lambda index: (-scores[index], index))
        best = self.leader
        for index in ranked[math.ceil(len(ranked) / 2) :]:
            gain = self.gain(index, best) if best is not None else None
            self._drop(index, _slower(gain) if gain else "slower")

    @property
    def _others(self) -> list[int]:
        return [index for index in self.alive if index not in self.references]

    def _rounds_of_stage(self, seconds: float) -> int:
        """How many rounds a stage has, where all stages share so much time; at least one."""
        stages = 1 + math.ceil(math.log2(max(1, len(self._others))))
        cost = sum(self.estimate_s(index) for index in self.alive)
        return max(1, int(seconds / stages / cost)) if cost else 1

    def _is_decided(self) -> bool:
        """Whether one is left, or nobody would feel which of those left is taken."""
        leader = self.leader
        if leader is None:
            self.finish("nothing ran")
        elif len(self.alive) == 1:
            self.finish("one is left")
        else:
            gains = [self.gain(index, leader) for index in self.alive if index != leader]
            if all(gain and gain.pairs >= FEWEST_PAIRS and verdict_of(gain) == "same" for gain in gains):
                self.finish("those left are alike")
        return bool(self.end)

    def _scores(self, indexes: Sequence[int]) -> dict[int, float]:
        """Of each, how far above the others it was in the rounds that all of them have."""
        rounds = sorted(set.intersection(*(set(self.levels[index]) for index in indexes))) if indexes else []
        middles = {number: statistics.fmean(self.levels[index][number] for index in indexes) for number in rounds}
        return {
            index: typical([self.levels[index][number] - middles[number] for number in rounds]) if rounds else 0.0
            for index in indexes
        }


def _slower(gain: Gain) -> str:
    rounds = "1 round" if gain.pairs == 1 else f"{gain.pairs} rounds"
    if gain.middle <= 0:
        return f"no faster than the best in {rounds}"
    return f"takes {math.expm1(gain.middle):.1%} longer than the best in {rounds}"
