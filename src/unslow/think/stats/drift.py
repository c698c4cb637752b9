"""A measurement of many minutes: what was answered in each slice, how the speed changed, and what changed with it."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from unslow.facts.bench import DECODE, FIRST, Failure, FailureKind, Pass, SweepPoint
from unslow.think.stats.figures import decode_rate
from unslow.think.stats.repeats import spread_of

_MINUTE_S = 60.0
_SHORT_S = 1.0
_WORDS: dict[FailureKind, str] = {
    "refused": "refused",
    "not_answered": "not answered",
    "stalled": "stalled",
    "broke_off": "broken off",
    "error": "answered with an error",
    "gone": "lost with the server's process",
}
FELL = 0.05  # What counts as a change of speed: throttling takes more, and repeats of a calm machine differ by less
UNSTEADY = 0.10
FEWEST_SLICES = 4
_SURE = 0.01
_MANY_LEVELS = 4
_FEW_DIPS = 0.10  # of the slices may be slow for reasons of their own
_DIP = 0.85
_BLIND = 0.2  # Where not even such a change would be found, calling it steady says nothing
R = TypeVar("R", Pass, Failure)


class Slice(NamedTuple):
    """A stretch of time: when it began, the median speed in it, and what the machine did meanwhile."""

    minute: float
    tokens_per_s: float
    seen: Mapping[str, float] = {}


class Outage(NamedTuple):
    """A stretch in which the server was not there, since the benchmark began."""

    start_s: float
    end_s: float


class Drift(NamedTuple):
    """What became of the speed."""

    verdict: str  # steady, falls, recovers, unsteady or cannot_tell
    because: str
    knee: float | None = None  # The minute in which it changed
    early: float = 0.0
    late: float = 0.0
    settled_since: float | None = None  # The minute since which the speed stays where it is


class Level(NamedTuple):
    """A stretch of the series, from `start` up to but not including `end`, and its median."""

    start: int
    end: int
    value: float


class Trend(NamedTuple):
    """A steady change: what the series gains from its first to its last value, over its median; and how sure."""

    change: float
    chance: float  # That noise alone would rank the values so well, by Mann and Kendall


class _Unit(NamedTuple):
    """How a quantity is told, and what counts as a change of it: that share of it and that much."""

    scale: float
    name: str
    share: float = 0.0
    least: float = 0.0


class Timeline(NamedTuple):
    """All of it; times are since the benchmark began, `seen` has what was watched in each slice that is over."""

    start_s: float
    lasted_s: float
    slice_s: float
    passes: Sequence[Pass]
    failures: Sequence[Failure]
    outages: Sequence[Outage] = ()
    seen: Sequence[Mapping[str, float]] = ()

    def drift(self) -> Drift:
        """What became of the speed."""
        slices = [
            Slice(number * self.slice_s / _MINUTE_S, statistics.median(rates), self._seen_in(number))
            for number, passes in enumerate(self._by_slice(self.passes))
            if (rates := _rates(passes))
        ]
        return judge_drift(slices, _rates(self.passes))

    def points(self) -> list[SweepPoint]:
        """One for each slice; one in which nothing was answered has no figures."""
        points = []
        both = zip(self._by_slice(self.passes), self._by_slice(self.failures), strict=True)
        for number, (passes, failures) in enumerate(both):
            start, at = self.start_s + number * self.slice_s, number * self.slice_s / _MINUTE_S
            end = start + self.slice_s
            down = sum(max(0.0, min(one.end_s, end) - max(one.start_s, start)) for one in self.outages)
            gaps = [one.gaps.max_s for one in passes if one.gaps]
            seen = {**self._seen_in(number), "answered": float(len(passes))}
            seen |= {"down_s": down} if down else {}
            seen |= {"longest_gap_s": max(gaps)} if gaps else {}
            samples = {DECODE: _rates(passes), FIRST: [one.client_first_token_s for one in passes]}
            figures = {name: spread_of(values) for name, values in samples.items() if values}
            failed = len(failures)
            points.append(SweepPoint(at=at, label=f"minute {at:g}", figures=figures, seen=seen, failures=failed))
        return points

    def _by_slice(self, requests: Sequence[R]) -> list[list[R]]:
        """What began after the last whole slice belongs to that one."""
        parts: list[list[R]] = [[] for _ in range(max(1, round(self.lasted_s / self.slice_s)))]
        for one in requests:
            number = max(0, int((one.started_s - self.start_s) / self.slice_s))
            parts[min(len(parts) - 1, number)].append(one)
        return parts

    def _seen_in(self, number: int) -> Mapping[str, float]:
        return self.seen[number] if number < len(self.seen) else {}


def _rates(passes: Iterable[Pass]) -> list[float]:
    return [rate for one in passes if (rate := decode_rate(one)) is not None]


def availability_line(passes: Sequence[Pass], failures: Sequence[Failure], outages: Sequence[Outage]) -> str:
    """The line: "120 requests: 112 answered, 8 failed (5 broken off, 3 refused); not there for 14 s in 2 outages"."""
    text = f"{len(passes) + len(failures)} requests: {len(passes)} answered, {len(failures)} failed"
    if failures:
        kinds = sorted(Counter(one.kind for one in failures).items())
        text += f" ({', '.join(f'{count} {_WORDS[kind]}' for kind, count in kinds)})"
    if outages:
        down_s = sum(one.end_s - one.start_s for one in outages)
        text += f"; unreachable for {down_s:.0f} s in {len(outages)} outage{'s' if len(outages) > 1 else ''}"
    # Between two pieces of an answer, before the first, or until a stall was given up
    silences = [max(one.client_first_token_s, one.gaps.max_s if one.gaps else 0.0) for one in passes]
    silences += [one.lasted_s for one in failures if one.kind in ("stalled", "not_answered")]
    if max(silences, default=0.0) >= _SHORT_S:
        text += f"; longest silence {max(silences):.1f} s"
    return text


def judge_drift(slices: Sequence[Slice], speeds: Sequence[float] = ()) -> Drift:
    """The verdict on slices in their order; `speeds` are those of the single requests."""
    slices = [one for one in slices if one.tokens_per_s > 0]
    if len(slices) < FEWEST_SLICES:
        return Drift("cannot_tell", f"only {len(slices)} time slices have a speed; {FEWEST_SLICES} are needed")
    values = [one.tokens_per_s for one in slices]
    if kinds := two_kinds(speeds, UNSTEADY):
        why = f"requests run at two speeds throughout, about {kinds[0]:.1f} and {kinds[1]:.1f} tok/s"
        return Drift("unsteady", why, early=values[0], late=values[-1])
    found = levels(values, FELL)
    ups = [b.value > a.value for a, b in pairwise(found)]
    if len(found) >= _MANY_LEVELS and sum(a != b for a, b in pairwise(ups)) > 1:
        low, high = min(level.value for level in found), max(level.value for level in found)
        why = f"the speed changed {len(found) - 1} times, between {low:.1f} and {high:.1f} tok/s"
        slow, fast = list[Slice](), list[Slice]()
        for level in found:
            (slow if level.value < (low + high) / 2 else fast).extend(slices[level.start : level.end])
        return Drift("unsteady", why + what_changed(fast, slow), early=found[0].value, late=found[-1].value)
    if len(found) > 1:
        return _judge_levels(found, slices)
    moved = trend(values)
    if abs(moved.change) >= FELL and moved.chance < _SURE:
        return _judge_trend(moved, slices)
    return _judge_one_level(values)


def _judge_levels(found: Sequence[Level], slices: Sequence[Slice]) -> Drift:
    """A fall where the last level is a low one, else a slow stretch that is over."""
    top, last = max(found, key=lambda level: level.value), found[-1]
    falls = last.value < (1 - FELL) * top.value
    after = [level for level in found if level.start >= (top.end if falls else 0)]
    low = next(level for level in after if level.value < (1 - FELL) * top.value)
    minute = slices[low.start].minute
    share = 1 - min(level.value for level in after) / top.value
    moved = what_changed(slices[top.start : top.end], slices[low.start : low.end])
    if falls:
        why = f"from minute {minute:g} on decode runs at {last.value:.1f} instead of {top.value:.1f} tok/s"
        why += f" ({1 - last.value / top.value:.0%} less){moved}"
        return Drift("falls", why, minute, found[0].value, last.value, slices[last.start].minute)
    back = next(level for level in found if level.start >= low.end and level.value >= (1 - FELL) * top.value)
    until, start = slices[back.start].minute, f"from minute {minute:g} " if low.start else ""
    why = f"slower by {share:.0%} {start}until minute {until:g}, then {back.value:.1f} tok/s{moved}"
    return Drift("recovers", why, minute, found[0].value, last.value)


def _judge_trend(moved: Trend, slices: Sequence[Slice]) -> Drift:
    quarter = max(2, len(slices) // 4)
    first, last = slices[:quarter], slices[-quarter:]
    early, late = (statistics.median(one.tokens_per_s for one in side) for side in (first, last))
    verdict, way = ("falls", "less") if moved.change < 0 else ("recovers", "more")
    # The minute from which on no three stretches in a row reach the early speed again
    far = [abs(one.tokens_per_s - early) > FELL / 2 * early for one in slices]
    start = len(far)
    while start > 0 and any(far[max(0, start - 3) : start]):
        start -= 1
    knee = slices[min(start, len(slices) - 1)].minute
    why = f"gradually from {early:.1f} to {late:.1f} tok/s: "
    why += f"{abs(moved.change):.0%} {way} over {slices[-1].minute - slices[0].minute:g} minutes"
    return Drift(verdict, why + what_changed(first, last), knee, early, late)


def _judge_one_level(values: Sequence[float]) -> Drift:
    """One level, which may be held, or only kept on average."""
    middle, spread = statistics.median(values), series_noise(values)
    # The smallest change in the middle of the series that would be found, over its median
    least = CLEAR * _OF_MEDIANS * spread * math.sqrt(4 / len(values)) / middle if middle > 0 else 1.0
    part = max(1, len(values) // 4)
    early, late = statistics.median(values[:part]), statistics.median(values[-part:])
    dips = [v for v in values if v < _DIP * middle]
    verdict = "unsteady"
    if spread > UNSTEADY * middle:
        why = f"neighbouring time slices differ by {spread / middle:.0%}"
    elif len(dips) > max(1.0, _FEW_DIPS * len(values)):
        why = f"{len(dips)} of {len(values)} time slices were slower by {1 - statistics.median(dips) / middle:.0%}"
    else:
        verdict = "steady" if least < _BLIND else "cannot_tell"
        why = f"{early:.1f} tok/s at the start, {late:.1f} at the end; time slices differ by {spread / middle:.1%}"
        why += f", so a change below {least:.0%} would go unnoticed" if least > FELL else ""
    return Drift(verdict, why, early=early, late=late)


_UNITS = {
    "_clock_hz": _Unit(1e-6, "MHz", share=0.03),
    "_temperature_c": _Unit(1.0, "°C", least=3.0),
    "_power_w": _Unit(1.0, "W", share=0.05),
    "_cpus": _Unit(1.0, "CPUs", least=0.3),
    "_bytes_per_s": _Unit(1e-9, "GB/s", share=0.2, least=5e7),
    "_bytes": _Unit(1e-9, "GB", share=0.05, least=2.5e8),
}
"""By the end of a name, the most telling first."""
_SI = re.compile(r"_(hz|c|w|bytes|bytes_per_s)$")
_REASON = "reason_"
_SHARE_OF_REASON = 0.1
_MOST_NAMED = 5


def what_changed(before: Sequence[Slice], after: Sequence[Slice]) -> str:
    """What else was different: "; at the same time gpu0 clock went from 1980 to 1410 MHz"; empty where nothing was."""
    known, later = ({name for one in side for name in one.seen} for side in (before, after))
    names = known & later | {name for name in later if known and _REASON in name}  # one that was never set has no name
    told, sides = [], (before, after)
    for name in sorted(name for name in names if _REASON in name):
        was, now = (statistics.fmean(one.seen.get(name, 0.0) for one in side if one.seen) for side in sides)
        if now - was > _SHARE_OF_REASON:
            words = name.replace(_REASON, "").replace("_", " ")
            told.append(f"{words} in {now:.0%} of the samples instead of {was:.0%}")
    for ending, unit in _UNITS.items():
        for name in sorted(name for name in names if name.endswith(ending) and _REASON not in name):
            was, now = (statistics.fmean(one.seen[name] for one in side if name in one.seen) for side in sides)
            if abs(now - was) > max(unit.least, unit.share * max(was, now)):
                words = _SI.sub("", name).replace("_", " ")
                told.append(f"{words} went from {was * unit.scale:.4g} to {now * unit.scale:.4g} {unit.name}")
    return f"; at the same time {', '.join(told[:_MOST_NAMED])}" if told else ""


CLEAR = 4.5  # Standard errors between two levels: the largest of a few hundred splits of pure noise hardly reaches four
_OF_NORMAL = 1.4826  # the standard deviation of normal noise over its median absolute deviation
_OF_MEDIANS = 1.2533  # the standard error of a median over that of a mean
_FEWEST, _MANY = 2, 12
ROUNDING = 1e-9


def levels(values: Sequence[float], least: float) -> list[Level]:
    """The levels in their order; neighbours differ by at least that share of the higher one."""
    # A series is split where two levels describe it best, if they differ clearly against its own noise, and each side
    # again. The noise is that of neighbours, so that a change of level is not taken for noise.
    if not values:
        return []
    middle = statistics.median(values)
    smallest = max(series_noise(values), abs(middle) * least / 20)  # a series without any noise is not endlessly sure
    edges = [0, *_splits(values, 0, smallest, least), len(values)]
    for n in range(1, len(edges) - 1):  # each again between its neighbours: the first were made before there were any
        edges[n] = edges[n - 1] + _best_split(values[edges[n - 1] : edges[n + 1]], _FEWEST)
    found: list[Level] = []
    for start, end in pairwise(edges):
        level = Level(start, end, statistics.median(values[start:end]))
        before = found[-1] if found else None
        if before and min(before.value, level.value) > (1 - least) * max(before.value, level.value):
            found[-1] = Level(before.start, end, statistics.median(values[before.start : end]))
        else:
            found.append(level)
    return found


def _splits(values: Sequence[float], offset: int, deviation: float, least: float) -> list[int]:
    fewest = _FEWEST if len(values) < _MANY else _FEWEST + 1
    if len(values) < 2 * fewest:
        return []
    at = _best_split(values, fewest)
    sides = statistics.median(values[:at]), statistics.median(values[at:])
    error = _OF_MEDIANS * deviation * math.sqrt(1 / at + 1 / (len(values) - at)) or 1e-12
    share = 1 - min(sides) / max(sides) if max(sides) > 0 else 0.0
    if abs(sides[0] - sides[1]) / error < CLEAR or share < least:
        return []
    before = _splits(values[:at], offset, deviation, least)
    return [*before, offset + at, *_splits(values[at:], offset + at, deviation, least)]


def _best_split(values: Sequence[float], fewest: int) -> int:
    """Where two levels describe the series best; of places that are equally good but for rounding, the first."""
    off = {at: _off_median(values[:at]) + _off_median(values[at:]) for at in range(fewest, len(values) - fewest + 1)}
    least = min(off.values())
    return next(at for at, total in off.items() if total <= least + ROUNDING * abs(least))


def _off_median(values: Sequence[float]) -> float:
    middle = statistics.median(values)
    return sum(abs(value - middle) for value in values)


def series_noise(values: Sequence[float]) -> float:
    """The standard deviation of a value around its level, from the differences of neighbours."""
    steps = [abs(b - a) for a, b in pairwise(values)]
    return _OF_NORMAL * statistics.median(steps) / math.sqrt(2) if steps else 0.0


def trend(values: Sequence[float]) -> Trend:
    """The slope that half of all pairs exceed, after Theil and Sen, over the whole series."""
    count, middle = len(values), statistics.median(values)
    pairs = [(j - i, values[j] - values[i]) for i in range(count) for j in range(i + 1, count)]
    if not pairs or middle <= 0:
        return Trend(0.0, 1.0)
    slope = statistics.median(rise / run for run, rise in pairs)
    score = sum((rise > 0) - (rise < 0) for _, rise in pairs)
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    z = max(0, abs(score) - 1) / deviation
    return Trend(slope * (count - 1) / middle, math.erfc(z / math.sqrt(2)))


def two_kinds(values: Sequence[float], least: float) -> tuple[float, float] | None:
    """The two speeds of a series that keeps changing between them; None where it does not, or is too short."""
    ordered = sorted(values)
    fewest = max(3, len(ordered) // 7)
    gaps = [(ordered[at] - ordered[at - 1], at) for at in range(fewest, len(ordered) - fewest + 1)]
    if not gaps:
        return None
    at = max(gaps)[1]
    low, high = ordered[:at], ordered[at:]
    below, above = statistics.median(low), statistics.median(high)
    within = _OF_NORMAL * sum(statistics.median(abs(v - m) for v in side) for side, m in ((low, below), (high, above)))
    if above - below <= max(3.5 * within, least * above):
        return None
    changes = sum(a != b for a, b in pairwise(value > (below + above) / 2 for value in values))
    return (below, above) if changes > len(values) / 4 else None
