"""What else there is to say of a comparison: failures, drift, and how long it took for how much."""

import math
from collections.abc import Iterator, Sequence

from unslow.facts.verified import Side
from unslow.think.verify.apart import crowding, host_drift
from unslow.think.verify.report import FigureShown
from unslow.think.verify.rounds import FEWEST_ROUNDS
from unslow.think.verify.told import Told

LATE = 1.25
"""Times as long as it was to take: from here on it is said."""
_CROWDED = 0.05
"""Of the time: what others take below it is not worth a word."""
_WHOLE_S = 10.0
"""Shorter times are told with a decimal."""


def notes_of(before: Side, after: Side, told: Told, figures: Sequence[FigureShown]) -> tuple[str, ...]:
    """Every note, failures first."""
    sides = (("before", before), ("after", after))
    notes = [f"{name}: {counted(len(side.failures), 'request')} failed" for name, side in sides if side.failures]
    notes += [f"{name}: {_unstarted(side)}" for name, side in sides if side.failed_starts]
    notes += [f"{name}: no perplexity: {side.not_scored}" for name, side in sides if side.not_scored]
    if told.way == "apart":
        notes.append(_drift_words(before, after))
    if told.ended:
        notes.append(f"it ended before its time: {told.ended}")
    if told.interrupted:
        notes.append("stopped before its time: what was measured until then counts")
    rounds = max((figure.rounds for figure in figures), default=0)
    return (*notes, *_time_words(told, (before, after), rounds))


def counted(number: int, what: str) -> str:
    """So many of something."""
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _unstarted(side: Side) -> str:
    failed = counted(len(side.failed_starts), "start")
    return f"{failed} of {len(side.starts_s) + len(side.failed_starts)} failed ({side.failed_starts[-1]})"


def _time_words(told: Told, sides: Sequence[Side], rounds: int) -> Iterator[str]:
    """Where it took longer than it was to, or had time for too few rounds."""
    if told.took_s is None or told.asked_s is None:
        return
    starts = [seconds for side in sides for seconds in side.starts_s] if told.way != "apart" else []
    of_starts = f", {sum(starts):.0f} s of it for {counted(len(starts), 'start')}" if starts else ""
    if told.took_s > LATE * told.asked_s:
        took = f"{told.took_s:.{0 if told.took_s >= _WHOLE_S else 1}f} s and not {told.asked_s:g}"
        yield f"it took {took}: {counted(rounds, 'round')}{of_starts}"
    if 0 < rounds < FEWEST_ROUNDS and not told.ended and not told.interrupted:
        needed = math.ceil(told.took_s * FEWEST_ROUNDS / rounds / 10) * 10
        yield f"there was time for {counted(rounds, 'round')} only{of_starts}: give it --seconds {needed} or more"


def _drift_words(before: Side, after: Side) -> str:
    drift = host_drift(before, after)
    seen = "whether the host was as fast is not known"
    if drift is not None:
        seen = f"the host's memory was {abs(drift):.1%} {'faster' if drift > 0 else 'slower'} the second time"
    clocks = [side.conditions.get("gpu_clock_hz") for side in (before, after)]
    if clocks[0] and clocks[1]:
        seen += f", its GPU's clock {clocks[1] / clocks[0] - 1:+.1%}"
    crowded = [crowding(side) for side in (before, after)]
    if max(crowded) >= _CROWDED:
        seen += (
            f", and others took up to {crowded[0]:.0%} of its processors the first time, {crowded[1]:.0%} the second"
        )
    return f"measured at different times, so drift is not excluded: {seen}; the interval is wider for it"
