"""The report on what was measured: the winner, how much faster it is, and how far the predictions were off."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.verified import Sample, Work
from unslow.think.bench.spread import spread_of
from unslow.think.tune.candidate import Candidate
from unslow.think.tune.candidates import DEFAULT, Candidates
from unslow.think.tune.halving import Halving
from unslow.think.tune.report import TrialShown, TuneReport, Verdict
from unslow.think.verify.gain import Gain
from unslow.think.verify.report import IntervalShown
from unslow.think.verify.verdict import SAME, because_of, verdict_of

_FEWEST_ROUNDS = 2
_STALL, _STALL_S = 4.0, 10.0
"""Times the usual, and seconds more, that nothing but a stall explains."""
_ENDLESS = 10.0
"""Ten times faster is no interval any more."""


class Measured(NamedTuple):
    """What is known of one candidate beside its levels."""

    command: str
    samples: Sequence[Sample] = ()
    starts_s: Sequence[float] = ()


class Told(NamedTuple):
    """What is known beside the measurements."""

    unslow_version: str
    model: str
    machine: str
    server: str
    work: Work
    context: int
    notes: tuple[str, ...] = ()
    interrupted: bool = False


def judged(candidates: Candidates, measured: Sequence[Measured], halving: Halving, told: Told) -> TuneReport:
    """The whole report."""
    winner = winner_of(halving, candidates.plan)
    verdict, because = _verdict(halving, winner)
    return TuneReport(
        unslow_version=told.unslow_version,
        model=told.model,
        machine=told.machine,
        server=told.server,
        work=told.work,
        context=told.context,
        verdict=verdict,
        because=because,
        winner=winner,
        plan=candidates.plan,
        over_default=_best_over(halving, DEFAULT, winner),
        over_plan=_best_over(halving, candidates.plan, winner),
        command=measured[winner].command if winner is not None else "",
        trials=tuple(_trial(n, one, measured[n], halving) for n, one in enumerate(candidates.all)),
        budget_s=halving.budget_s,
        spent_s=halving.spent_s,
        rounds=max((max(levels, default=0) for levels in halving.levels), default=0),
        ended=halving.end,
        interrupted=told.interrupted,
        notes=(*told.notes, *_stalls(candidates, halving)),
    )


def _stalls(candidates: Candidates, halving: Halving) -> list[str]:
    """Turns that took far longer than others of the same: the machine was busy with something else."""
    usual = [(took, statistics.median(took)) if took else ([0.0], 0.0) for took in halving.took_s]
    found = [(n, max(took), middle) for n, (took, middle) in enumerate(usual) if max(took) > _STALL * middle + _STALL_S]
    return [
        f"{candidates.all[n].name}: a turn took {longest:.0f} s, others {middle:.0f} s: was the machine busy?"
        for n, longest, middle in found
    ]


def status_of(report: TuneReport) -> int:
    """The exit status: 0 there is a winner, 1 nothing ran, 3 it can't be told."""
    return {"faster": 0, "default_is_best": 0, "failed": 1, "cannot_tell": 3}[report.verdict]


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
        return _of_default(halving, count - 1)
    gain = halving.best_gain(DEFAULT, winner)
    if gain is None:
        why = halving.dropped[DEFAULT].why if DEFAULT in halving.dropped else "not measured"
        return "faster", f"llama.cpp's own choice did not run: {why}"
    sure = verdict_of(gain)
    words = f"the best of {count}, which is allowed for, against llama.cpp's own choice: {because_of(gain, sure)}"
    return ("faster" if sure == "faster" else "cannot_tell"), words


def _of_default(halving: Halving, others: int) -> tuple[Verdict, str]:
    """Whether those that were measured to the end could still be faster than llama.cpp's own choice."""
    if not others or len(halving.levels[DEFAULT]) < _FEWEST_ROUNDS:
        return "cannot_tell", "too little was measured: give it more time with --seconds"
    gains = [gain for index in halving.alive if index != DEFAULT and (gain := halving.gain(DEFAULT, index))]
    most = math.expm1(max((gain.high for gain in gains), default=0.0))
    if most > SAME:
        words = f"up to {most:.0%} faster" if most < _ENDLESS else "any faster"
        return "cannot_tell", f"llama.cpp's own choice was the fastest, and another could still be {words}: noise"
    return "default_is_best", f"none of {others} others is faster by more than anybody feels"


def _over(halving: Halving, other: int | None, winner: int | None) -> IntervalShown | None:
    if other is None or winner is None or other == winner:
        return None
    gain = halving.gain(other, winner)
    return _interval(gain) if gain else None


def _best_over(halving: Halving, other: int | None, winner: int | None) -> IntervalShown | None:
    if other is None or winner is None or other == winner:
        return None
    gain = halving.best_gain(other, winner)
    return _interval(gain) if gain else None


def _interval(gain: Gain) -> IntervalShown:
    return IntervalShown(low=math.exp(gain.low), mid=math.exp(gain.middle), high=math.exp(gain.high))


def _trial(index: int, candidate: Candidate, measured: Measured, halving: Halving) -> TrialShown:
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
        over_default=_over(halving, DEFAULT, index),
        predicted=candidate.speed,
        measured_over_predicted=request.median / said if request and said > 0 else None,
        dropped=left.why if left else "",
        dropped_in_round=left.round if left else None,
        samples=tuple(measured.samples),
    )


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
