"""Judges how the speed of a server changed over the minutes, and says what changed with it."""

import re
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from unslow.think.bench.levels import Level, Trend, levels, noise, seen_from, trend, two_kinds

FELL = 0.05
"""What counts as a change of speed: throttling takes more, and repeats of a calm machine differ by less."""
UNSTEADY = 0.10
FEWEST_SLICES = 4
_SURE = 0.01
_MANY_LEVELS = 4
_FEW_DIPS = 0.10  # of the slices may be slow for reasons of their own
_DIP = 0.85
_BLIND = 0.2
"""Where not even such a change would be found, calling it steady says nothing."""


class Slice(NamedTuple):
    """A stretch of time: when it began, the median speed in it, and what the machine did meanwhile."""

    minute: float
    tokens_per_s: float
    seen: Mapping[str, float] = {}


class Drift(NamedTuple):
    """What became of the speed."""

    verdict: str
    """steady, falls, recovers, unsteady or cannot_tell."""
    because: str
    knee: float | None = None
    """The minute in which it changed."""
    early: float = 0.0
    late: float = 0.0
    settled_since: float | None = None
    """The minute since which the speed stays where it is."""


def judge_drift(slices: Sequence[Slice], speeds: Sequence[float] = ()) -> Drift:
    """The verdict on slices in their order; `speeds` are those of the single requests."""
    slices = [one for one in slices if one.tokens_per_s > 0]
    if len(slices) < FEWEST_SLICES:
        return Drift("cannot_tell", f"only {len(slices)} stretches of time have a speed; {FEWEST_SLICES} are needed")
    values = [one.tokens_per_s for one in slices]
    if kinds := two_kinds(speeds, UNSTEADY):
        why = f"requests come at two speeds, about {kinds[0]:.1f} and {kinds[1]:.1f} tokens per second, all the time"
        return Drift("unsteady", why, early=values[0], late=values[-1])
    found = levels(values, FELL)
    if len(found) >= _MANY_LEVELS and _turns(found) > 1:
        return _restless(found, slices)
    if len(found) > 1:
        return _changed(found, slices)
    moved = trend(values)
    if abs(moved.change) >= FELL and moved.chance < _SURE:
        return _drifting(moved, slices)
    return _even(values)


def _turns(found: Sequence[Level]) -> int:
    """How often the way from level to level changes between up and down."""
    ups = [b.value > a.value for a, b in pairwise(found)]
    return sum(a != b for a, b in pairwise(ups))


def _restless(found: Sequence[Level], slices: Sequence[Slice]) -> Drift:
    low, high = min(level.value for level in found), max(level.value for level in found)
    why = f"the speed changed {len(found) - 1} times, between {low:.1f} and {high:.1f} tokens per second"
    slow = [one for level in found if level.value < (low + high) / 2 for one in slices[level.start : level.end]]
    fast = [one for level in found if level.value >= (low + high) / 2 for one in slices[level.start : level.end]]
    return Drift("unsteady", why + what_changed(fast, slow), early=found[0].value, late=found[-1].value)


def _changed(found: Sequence[Level], slices: Sequence[Slice]) -> Drift:
    """A fall where the last level is a low one, else a slow stretch that is over."""
    top = max(found, key=lambda level: level.value)
    last = found[-1]
    falls = last.value < (1 - FELL) * top.value
    after = [level for level in found if level.start >= (top.end if falls else 0)]
    low = next(level for level in after if level.value < (1 - FELL) * top.value)
    minute = slices[low.start].minute
    share = 1 - min(level.value for level in after) / top.value
    moved = what_changed(slices[top.start : top.end], slices[low.start : low.end])
    if falls:
        why = f"from minute {minute:g} on it generates {last.value:.1f} instead of {top.value:.1f} tokens per second"
        why = f"{why} ({1 - last.value / top.value:.0%} less){moved}"
        return Drift("falls", why, minute, found[0].value, last.value, slices[last.start].minute)
    back = next(level for level in found if level.start >= low.end and level.value >= (1 - FELL) * top.value)
    until, start = slices[back.start].minute, f"from minute {minute:g} " if low.start else ""
    why = f"slower by {share:.0%} {start}until minute {until:g}, then {back.value:.1f} tokens per second{moved}"
    return Drift("recovers", why, minute, found[0].value, last.value)


def _drifting(moved: Trend, slices: Sequence[Slice]) -> Drift:
    """A slope without steps."""
    part = max(2, len(slices) // 4)
    first, last = slices[:part], slices[-part:]
    early, late = (statistics.median(one.tokens_per_s for one in side) for side in (first, last))
    verdict, way = ("falls", "less") if moved.change < 0 else ("recovers", "more")
    knee = _left(slices, early)
    why = f"little by little, {early:.1f} tokens per second at first and {late:.1f} at last: "
    why += f"{abs(moved.change):.0%} {way} over {slices[-1].minute - slices[0].minute:g} minutes"
    return Drift(verdict, why + what_changed(first, last), knee, early, late)


def _left(slices: Sequence[Slice], early: float) -> float:
    """The minute from which on no three stretches in a row reach the early speed again."""
    far = [abs(one.tokens_per_s - early) > FELL / 2 * early for one in slices]
    start = len(far)
    while start > 0 and any(far[max(0, start - 3) : start]):
        start -= 1
    return slices[min(start, len(slices) - 1)].minute


def _even(values: Sequence[float]) -> Drift:
    """One level, which may be held, or only kept on average."""
    middle, spread, least = statistics.median(values), noise(values), seen_from(values)
    part = max(1, len(values) // 4)
    early, late = statistics.median(values[:part]), statistics.median(values[-part:])
    dips = [v for v in values if v < _DIP * middle]
    verdict = "unsteady"
    if spread > UNSTEADY * middle:
        why = f"neighbouring stretches differ by {spread / middle:.0%}"
    elif len(dips) > max(1.0, _FEW_DIPS * len(values)):
        why = f"{len(dips)} of {len(values)} stretches were slower by {1 - statistics.median(dips) / middle:.0%}"
    else:
        verdict = "steady" if least < _BLIND else "cannot_tell"
        why = f"{early:.1f} tokens per second at first, {late:.1f} at last; stretches differ by {spread / middle:.1%}"
        why += f", so a change of less than {least:.0%} could not be seen" if least > FELL else ""
    return Drift(verdict, why, early=early, late=late)


class _Unit(NamedTuple):
    """How a quantity is told, and what counts as a change of it: that share of it and that much."""

    scale: float
    name: str
    share: float = 0.0
    least: float = 0.0


_UNITS = {
    "_clock_hz": _Unit(1e-6, "MHz", share=0.03),
    "_temperature_c": _Unit(1.0, "°C", least=3.0),
    "_power_w": _Unit(1.0, "W", share=0.05),
    "_cpus": _Unit(1.0, "processors", least=0.3),
    "_bytes_per_s": _Unit(1e-9, "GB/s", share=0.2, least=5e7),
    "_bytes": _Unit(1e-9, "GB", share=0.05, least=2.5e8),
}
"""By the end of a name, the most telling first."""
_SI = re.compile(r"_(hz|c|w|bytes|bytes_per_s)$")
_REASON = "reason_"
_SHARE_OF_REASON = 0.1
_MOST_NAMED = 5


def what_changed(before: Sequence[Slice], after: Sequence[Slice]) -> str:
    """What else was different: "; with it, gpu0 clock went from 1980 to 1410 MHz"; empty where nothing was."""
    known, later = ({name for one in side for name in one.seen} for side in (before, after))
    names = known & later | {name for name in later if known and _REASON in name}  # one that was never set has no name
    told = [
        text
        for ending in (_REASON, *_UNITS)
        for name in sorted(name for name in names if _ending(name) == ending)
        if (text := _told(name, ending, _mean(before, name), _mean(after, name)))
    ]
    return f"; with it, {', '.join(told[:_MOST_NAMED])}" if told else ""


def _ending(name: str) -> str:
    return _REASON if _REASON in name else next((ending for ending in _UNITS if name.endswith(ending)), "")


def _mean(slices: Sequence[Slice], name: str) -> float:
    if _REASON in name:
        return statistics.fmean(one.seen.get(name, 0.0) for one in slices if one.seen)
    return statistics.fmean(one.seen[name] for one in slices if name in one.seen)


def _told(name: str, ending: str, before: float, after: float) -> str:
    if ending == _REASON:
        words = name.replace(_REASON, "").replace("_", " ")
        more = after - before > _SHARE_OF_REASON
        return f"{words} in {after:.0%} of the samples instead of {before:.0%}" if more else ""
    unit = _UNITS[ending]
    if abs(after - before) <= max(unit.least, unit.share * max(before, after)):
        return ""
    words = _SI.sub("", name).replace("_", " ")
    return f"{words} went from {before * unit.scale:.4g} to {after * unit.scale:.4g} {unit.name}"
