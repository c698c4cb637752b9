"""What became of every request of a long measurement, in one line that adds up."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.bench import Failure, FailureKind, Pass

_WORDS: dict[FailureKind, str] = {
    "refused": "refused",
    "not_answered": "not answered",
    "stalled": "stalled",
    "broke_off": "broken off",
    "error": "answered with an error",
    "gone": "lost with the server's process",
}
_SHORT_S = 1.0


class Outage(NamedTuple):
    """A stretch in which the server was not there, since the benchmark began."""

    start_s: float
    end_s: float

    def within(self, start_s: float, end_s: float) -> float:
        """How much of it lies in a stretch of time."""
        return max(0.0, min(self.end_s, end_s) - max(self.start_s, start_s))


class Availability(NamedTuple):
    """Of all requests: those that were answered, those that failed by kind, and how long nobody was there."""

    answered: int
    failed: dict[FailureKind, int]
    outages: int
    down_s: float
    longest_silence_s: float

    @property
    def asked(self) -> int:
        """Every request is one or the other."""
        return self.answered + sum(self.failed.values())


def availability_of(passes: Sequence[Pass], failures: Sequence[Failure], outages: Sequence[Outage]) -> Availability:
    """The sums; a silence is one between two pieces of an answer, before the first, or until a stall was given up."""
    silences = [max(one.client_first_token_s, one.gaps.max_s if one.gaps else 0.0) for one in passes]
    silences += [one.lasted_s for one in failures if one.kind in ("stalled", "not_answered")]
    return Availability(
        answered=len(passes),
        failed=dict(sorted(Counter(one.kind for one in failures).items())),
        outages=len(outages),
        down_s=sum(one.end_s - one.start_s for one in outages),
        longest_silence_s=max(silences, default=0.0),
    )


def told(of: Availability) -> str:
    """The line: "120 requests: 112 answered, 8 failed (5 broken off, 3 refused); not there for 14 s in 2 outages"."""
    failed = sum(of.failed.values())
    text = f"{of.asked} requests: {of.answered} answered, {failed} failed"
    if failed:
        text += f" ({', '.join(f'{count} {_WORDS[kind]}' for kind, count in of.failed.items())})"
    if of.outages:
        text += f"; not there for {of.down_s:.0f} s in {of.outages} outage{'s' if of.outages > 1 else ''}"
    if of.longest_silence_s >= _SHORT_S:
        text += f"; the longest silence {of.longest_silence_s:.1f} s"
    return text
