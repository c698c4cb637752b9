"""A long measurement cut into slices of time: what was answered in each, what failed, and what the machine did."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from unslow.facts.bench import DECODE, FIRST, Failure, Pass, SweepPoint
from unslow.think.bench.availability import Outage
from unslow.think.bench.drift import Drift, Slice, judge_drift
from unslow.think.bench.rates import decode_rate
from unslow.think.bench.spread import spread_of

_MINUTE_S = 60.0


class _Part(NamedTuple):
    """The requests that began in one slice."""

    passes: list[Pass]
    failures: list[Failure]


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
            Slice(self._minute(number), statistics.median(rates), self._seen_in(number))
            for number, part in enumerate(self._parts())
            if (rates := _rates(part.passes))
        ]
        return judge_drift(slices, _rates(self.passes))

    def points(self) -> list[SweepPoint]:
        """One for each slice; one in which nothing was answered has no figures."""
        return [self._point(number, part) for number, part in enumerate(self._parts())]

    def _parts(self) -> list[_Part]:
        """What began after the last whole slice belongs to that one."""
        parts = [_Part([], []) for _ in range(max(1, round(self.lasted_s / self.slice_s)))]
        for one in self.passes:
            parts[self._number(one.started_s, len(parts))].passes.append(one)
        for failure in self.failures:
            parts[self._number(failure.started_s, len(parts))].failures.append(failure)
        return parts

    def _number(self, started_s: float, count: int) -> int:
        return min(count - 1, max(0, int((started_s - self.start_s) / self.slice_s)))

    def _minute(self, number: int) -> float:
        return number * self.slice_s / _MINUTE_S

    def _seen_in(self, number: int) -> Mapping[str, float]:
        return self.seen[number] if number < len(self.seen) else {}

    def _point(self, number: int, part: _Part) -> SweepPoint:
        start = self.start_s + number * self.slice_s
        down = sum(outage.within(start, start + self.slice_s) for outage in self.outages)
        gaps = [one.gaps.max_s for one in part.passes if one.gaps]
        seen = {**self._seen_in(number), "answered": float(len(part.passes))}
        seen |= {"down_s": down} if down else {}
        seen |= {"longest_gap_s": max(gaps)} if gaps else {}
        rates, firsts = _rates(part.passes), [one.client_first_token_s for one in part.passes]
        figures = {name: spread_of(values) for name, values in ((DECODE, rates), (FIRST, firsts)) if values}
        at = self._minute(number)
        return SweepPoint(at=at, label=f"minute {at:g}", figures=figures, seen=seen, failures=len(part.failures))


def _rates(passes: Iterable[Pass]) -> list[float]:
    return [rate for one in passes if (rate := decode_rate(one)) is not None]
