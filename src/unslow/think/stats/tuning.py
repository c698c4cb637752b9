"""`unslow tune`: successive halving of the candidates, and the versioned report on what was measured."""

import math
import statistics
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

import msgspec

from unslow.facts.verification import Sample, Work
from unslow.think.plan.report import ChangeShown, SpeedShown
from unslow.think.stats.comparison import hodges_lehmann
from unslow.think.stats.gain import FIRST_LOOK, SAME, Gain, because_of, is_look, is_narrow, paired_gain, verdict_of
from unslow.think.stats.repeats import CONFIDENCE, spread_of
from unslow.think.stats.tuning_candidates import DEFAULT, Candidate, Candidates, Kind
from unslow.think.stats.verification_report import IntervalShown

SCHEMA = "unslow.tune/1"
Verdict = Literal["faster", "default_is_best", "cannot_tell", "failed"]
"""faster: than llama.cpp's own choice, by more than noise. failed: nothing ran."""
FIRST_SHARE = 0.5  # Of the time, for the first round: what is measured once has still to be measured again
FEWEST_PAIRS = 3  # Of rounds, before anybody is called slower: two can agree by chance
WORTH = 0.01  # Of speed, as a logarithm: whoever is slower by less may as well stay
_FEWEST_ROUNDS = 2
_STALL, _STALL_S = 4.0, 10.0  # Times the usual, and seconds more, that nothing but a stall explains
_ENDLESS = 10.0  # Ten times faster is no interval any more


class TrialShown(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate and all that was measured of it."""

    name: str
    kind: Kind
    """default: llama.cpp's own choice. plan: what is recommended. option: of the front. neighbour: one step off."""
    settings: tuple[ChangeShown, ...]
    command: str
    rounds: int
    seconds: float  # That its servers ran, starts included
    start_s: float | None = None  # Until a server answered
    request_s: IntervalShown | None = None  # From a request to the end of its answer, over rounds
    decode_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    over_default: IntervalShown | None = None
    """How many times faster than llama.cpp's own choice, over the rounds that both have."""
    predicted: SpeedShown | None = None
    measured_over_predicted: float | None = None  # Of the time of a request: more than 1 is slower than predicted
    dropped: str = ""  # Why it was not measured to the end; empty where it was
    dropped_in_round: int | None = None
    samples: tuple[Sample, ...] = ()


class TuneReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer."""

    schema: str = SCHEMA
    unslow_version: str
    model: str
    machine: str = ""
    server: str = ""  # The program that was started
    work: Work
    context: int
    verdict: Verdict
    because: str
    winner: int | None = None  # The number of a trial, from 0
    plan: int | None = None  # Which of the trials the plan recommends
    over_default: IntervalShown | None = None
    """How many times faster the winner is than llama.cpp's own choice, with an interval that is wider the more were
    tried; None where that is the winner."""
    over_plan: IntervalShown | None = None  # The same against the plan
    command: str = ""  # The line to use
    trials: tuple[TrialShown, ...] = ()  # llama.cpp's own choice first
    budget_s: float
    spent_s: float
    rounds: int
    ended: str = ""  # Why it ended
    interrupted: bool = False
    notes: tuple[str, ...] = ()


class Turn(NamedTuple):
    """Whom to measure next, and in which round."""

    candidate: int
    round: int


class DroppedCandidate(NamedTuple):
    """Why a candidate left, and in which round."""

    why: str
    round: int


class Halving:
    """Who is measured next, who is left, and who leads; the indexes are those of the candidates.

    Successive halving: a stage gets the same share of the time as every other, so that the fewer are left, the more
    rounds each of them has. Two leave earlier: whoever fails, and whoever is surely slower than the leader. The
    references stay until the interval of the leader's gain over them is narrow.
    """

    def __init__(self, count: int, budget_s: float, references: Collection[int] = (0,), seed: int = 0) -> None:
        self.budget_s, self.references = budget_s, frozenset(references)
        self.alive = list(range(count))
        self.dropped: dict[int, DroppedCandidate] = {}
        self.levels: list[dict[int, float]] = [{} for _ in range(count)]
        """By candidate: the logarithm of its speed in each round."""
        self.took_s: list[list[float]] = [[] for _ in range(count)]
        self.spent_s = 0.0
        self.round = 1
        self.end = ""  # Why it is over; empty while it is not
        self._seed = seed
        self._queue = sorted(self.alive, key=lambda index: (index not in self.references, index))
        self._rounds_left = 1

    def next(self) -> Turn | None:
        """The next to measure; None where it is over."""
        while not self.end:
            if not self._queue:
                self._close_round()
                continue
            index = self._queue[0]
            first = self.round == 1 and index not in self.references
            until_s = (FIRST_SHARE if first else 1.0) * self.budget_s
            if self.spent_s == 0.0 or self.spent_s + self.estimate_s(index) <= until_s:
                return Turn(index, self.round)
            if self.round == 1:
                # Not all can be measured even once and then again: the rest of the round is left out
                for index in list(self._queue):
                    self._drop(index, "not measured: out of time; raise --seconds")
                self._queue = []
            else:
                self.finish("out of time")
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
        return paired_gain(self.levels[over], self.levels[of], confidence)

    def best_gain(self, over: int, of: int) -> Gain | None:
        """The same of one that was chosen as the best of all measured: by chance alone, one of many looks faster."""
        # With each of them wrong in one of twenty shared by all, the whole is (Bonferroni); faster is the only side
        tried = sum(1 for index, levels in enumerate(self.levels) if levels and index != over)
        return self.gain(over, of, max(CONFIDENCE, 1 - 2 * (1 - CONFIDENCE) / max(1, tried)))

    def estimate_s(self, index: int) -> float:
        """How long its next turn takes: as long as its own, else as that of others; 0 where none was measured."""
        own = self.took_s[index] or [took for every in self.took_s for took in every]
        return statistics.median(own) if own else 0.0

    def _spend(self, index: int, took_s: float) -> None:
        self.spent_s += took_s
        self.took_s[index].append(took_s)
        self._queue = [other for other in self._queue if other != index]

    def _drop(self, index: int, why: str) -> None:
        self.alive.remove(index)
        self.dropped[index] = DroppedCandidate(why, self.round)

    def _close_round(self) -> None:
        """After a round: who is surely slower goes, and at the end of a stage the slower half."""
        looks = self.round <= FIRST_LOOK or is_look(self.round)  # each look is another chance to be wrong
        if looks:
            leader = self.leader
            for index in [index for index in self.alive if index != leader]:
                gain = self.gain(index, leader) if leader is not None else None
                if gain is None or gain.pairs < FEWEST_PAIRS or gain.low <= WORTH:
                    continue
                if index not in self.references or is_narrow(gain):
                    self._drop(index, _slower_words(gain))
        self._rounds_left = self._rounds_of_stage(self.budget_s) if self.round == 1 else self._rounds_left
        self._rounds_left -= 1
        if self._rounds_left <= 0:
            self._halve()
            self._rounds_left = self._rounds_of_stage(self.budget_s - self.spent_s)
            looks = True
        if looks and self._is_decided():
            return
        self.round += 1
        # By lot, and in the next round the other way round: a machine that slowly gets slower harms none
        names = {index: f"{self._seed} {self.round // 2} {index}".encode() for index in self.alive}
        lots = {index: blake2b(name, digest_size=8).digest() for index, name in names.items()}
        self._queue = sorted(self.alive, key=lots.__getitem__, reverse=bool(self.round % 2))

    def _halve(self) -> None:
        """References don't count, and don't leave; one other is left to the end."""
        scores = self._scores(self.alive)
        others = [index for index in self.alive if index not in self.references]
        ranked = sorted(others, key=lambda index: (-scores[index], index))
        best = self.leader
        for index in ranked[math.ceil(len(ranked) / 2) :]:
            gain = self.gain(index, best) if best is not None else None
            self._drop(index, _slower_words(gain) if gain else "slower")

    def _rounds_of_stage(self, seconds: float) -> int:
        others = sum(index not in self.references for index in self.alive)
        stages = 1 + math.ceil(math.log2(max(1, others)))
        cost = sum(self.estimate_s(index) for index in self.alive)
        return max(1, int(seconds / stages / cost)) if cost else 1

    def _is_decided(self) -> bool:
        """Whether one is left, or the remaining ones are equally fast."""
        leader = self.leader
        if leader is None:
            self.finish("nothing ran")
        elif len(self.alive) == 1:
            self.finish("one candidate is left")
        else:
            gains = [self.gain(index, leader) for index in self.alive if index != leader]
            if all(gain and gain.pairs >= FEWEST_PAIRS and verdict_of(gain) == "same" for gain in gains):
                self.finish("the remaining candidates are equal")
        return bool(self.end)

    def _scores(self, indexes: Sequence[int]) -> dict[int, float]:
        """Of each, how far above the others it was in the rounds that all of them have."""
        rounds = sorted(set.intersection(*(set(self.levels[index]) for index in indexes))) if indexes else []
        middles = {number: statistics.fmean(self.levels[index][number] for index in indexes) for number in rounds}
        above = {index: [self.levels[index][number] - middles[number] for number in rounds] for index in indexes}
        return {index: hodges_lehmann(gains) if gains else 0.0 for index, gains in above.items()}


def _slower_words(gain: Gain) -> str:
    rounds = "1 round" if gain.pairs == 1 else f"{gain.pairs} rounds"
    if gain.middle <= 0:
        return f"not faster than the best in {rounds}"
    return f"takes {math.expm1(gain.middle):.1%} longer than the best in {rounds}"


class CandidateFigures(NamedTuple):
    """What is known of one candidate beside its levels."""

    command: str
    samples: Sequence[Sample] = ()
    starts_s: Sequence[float] = ()


class TuneContext(NamedTuple):
    """What is known beside the measurements."""

    unslow_version: str
    model: str
    machine: str
    server: str
    work: Work
    context: int
    notes: tuple[str, ...] = ()
    interrupted: bool = False


def judge_tuning(
    candidates: Candidates, measured: Sequence[CandidateFigures], halving: Halving, told: TuneContext
) -> TuneReport:
    """The whole report."""
    winner = winner_of(halving, candidates.plan)
    verdict, because = _verdict(halving, winner)
    # Turns that took far longer than others of the same: the machine was busy with something else
    stalls = []
    for candidate, took in zip(candidates.all, halving.took_s, strict=True):
        usual, longest = statistics.median(took or [0.0]), max(took, default=0.0)
        if longest > _STALL * usual + _STALL_S:
            times = f"one turn took {longest:.0f} s, others {usual:.0f} s"
            stalls.append(f"{candidate.name}: {times}: was the machine busy?")
    return TuneReport(
        **told._replace(notes=(*told.notes, *stalls))._asdict(),
        verdict=verdict,
        because=because,
        winner=winner,
        plan=candidates.plan,
        over_default=_gain_shown(halving.best_gain, DEFAULT, winner),
        over_plan=_gain_shown(halving.best_gain, candidates.plan, winner),
        command=measured[winner].command if winner is not None else "",
        trials=tuple(_trial(n, one, measured[n], halving) for n, one in enumerate(candidates.all)),
        budget_s=halving.budget_s,
        spent_s=halving.spent_s,
        rounds=max((max(levels, default=0) for levels in halving.levels), default=0),
        ended=halving.end,
    )


TUNE_STATUS = {"faster": 0, "default_is_best": 0, "failed": 1, "cannot_tell": 3}
"""The exit status by the verdict: 0 there is a winner, 1 nothing ran, 3 it can't be told."""


def winner_of(halving: Halving, plan: int | None) -> int | None:
    """The fastest; llama.cpp's own choice where that is surely as fast, and the plan where it was nearly so."""
    leader = halving.leader
    if leader is None:
        return None
    gain = halving.gain(DEFAULT, leader)
    if leader == DEFAULT or (gain and gain.pairs >= _FEWEST_ROUNDS and verdict_of(gain) == "same"):
        return DEFAULT
    gain = halving.gain(plan, leader) if plan is not None else None
    return plan if gain and gain.middle <= math.log1p(SAME) else leader


def _verdict(halving: Halving, winner: int | None) -> tuple[Verdict, str]:
    if winner is None:
        first = halving.dropped.get(DEFAULT)
        return "failed", f"nothing ran: {first.why if first else halving.end}"
    count = sum(1 for levels in halving.levels if levels)
    if winner == DEFAULT:
        return _judge_default(halving, count - 1)
    gain = halving.best_gain(DEFAULT, winner)
    if gain is None:
        why = halving.dropped[DEFAULT].why if DEFAULT in halving.dropped else "not measured"
        return "faster", f"the llama.cpp defaults did not run: {why}"
    sure = verdict_of(gain)
    chosen = f"(the interval allows for choosing the best of {count})"
    words = f"compared with the llama.cpp defaults {chosen}: {because_of(gain, sure)}"
    return ("faster" if sure == "faster" else "cannot_tell"), words


def _judge_default(halving: Halving, others: int) -> tuple[Verdict, str]:
    """Whether those that were measured to the end could still be faster than llama.cpp's own choice."""
    if not others or len(halving.levels[DEFAULT]) < _FEWEST_ROUNDS:
        return "cannot_tell", "too few measurements: raise --seconds"
    gains = [gain for index in halving.alive if index != DEFAULT and (gain := halving.gain(DEFAULT, index))]
    most = math.expm1(max((gain.high for gain in gains), default=0.0))
    if most > SAME:
        words = f"up to {most:.0%} faster" if most < _ENDLESS else "any faster"
        fastest = "the llama.cpp defaults were the fastest"
        return "cannot_tell", f"{fastest}; within noise another candidate could be {words}"
    return "default_is_best", f"none of {others} others is noticeably faster"


def _gain_shown(gain: Callable[[int, int], Gain | None], other: int | None, winner: int | None) -> IntervalShown | None:
    if other is None or winner is None or other == winner or not (found := gain(other, winner)):
        return None
    return IntervalShown(low=math.exp(found.low), mid=math.exp(found.middle), high=math.exp(found.high))


def _trial(index: int, candidate: Candidate, measured: CandidateFigures, halving: Halving) -> TrialShown:
    levels, left = halving.levels[index], halving.dropped.get(index)
    request = spread_of([math.exp(-level) for level in levels.values()]) if levels else None
    said = candidate.speed.request_s.mid if candidate.speed else 0.0
    return TrialShown(
        name=candidate.name,
        kind=candidate.kind,
        settings=candidate.settings,
        command=measured.command,
        rounds=len(levels),
        seconds=sum(halving.took_s[index]),
        start_s=statistics.median(measured.starts_s) if measured.starts_s else None,
        request_s=IntervalShown(low=request.low, mid=request.median, high=request.high) if request else None,
        decode_tokens_per_s=_middle([sample.decode_tokens_per_s for sample in measured.samples]),
        prefill_tokens_per_s=_middle([sample.prefill_tokens_per_s for sample in measured.samples]),
        over_default=_gain_shown(halving.gain, DEFAULT, index),
        predicted=candidate.speed,
        measured_over_predicted=request.median / said if request and said > 0 else None,
        dropped=left.why if left else "",
        dropped_in_round=left.round if left else None,
        samples=tuple(measured.samples),
    )


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
