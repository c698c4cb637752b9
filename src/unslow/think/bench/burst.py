"""One round of many users at once: what all of them got together, and how many were answered at the same time."""

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from unslow.facts.bench import Pass

_WHOLE_WINDOW = 0.2
"""Of the time in which tokens came: a shorter stretch in which all were answered at once is none to judge by."""


class Burst(NamedTuple):
    """What came of one round of so many users at once."""

    together: float
    """Tokens per second of all, while as many were answered at once as ever were."""
    at_once: int
    """How many were generated for at the same time."""
    whole: bool
    """Whether the figure is of a steady stretch; else of all the time in which tokens came."""


def burst_of(passes: Sequence[Pass]) -> Burst | None:
    """The round's figures, by the client's clock; None where nothing was generated."""
    spans = [_span(one) for one in passes if one.client_last_token_s > one.client_first_token_s]
    if not spans:
        return None
    at_once, start, end = _fullest(spans)
    first, last = min(span.start for span in spans), max(span.end for span in spans)
    steady = end - start >= _WHOLE_WINDOW * (last - first)
    window = (start, end) if steady else (first, last)
    return Burst(sum(span.within(*window) for span in spans) / (window[1] - window[0]), at_once, steady)


class _Span(NamedTuple):
    """When one answer was generated, and how many tokens came after its first."""

    start: float
    end: float
    tokens: int

    def within(self, start: float, end: float) -> float:
        """Tokens that came in a stretch of time, as if they had come evenly."""
        return self.tokens * max(0.0, min(end, self.end) - max(start, self.start)) / (self.end - self.start)


def _span(one: Pass) -> _Span:
    start, end = one.started_s + one.client_first_token_s, one.started_s + one.client_last_token_s
    return _Span(start, end, max(0, one.generated_tokens - 1))


def _fullest(spans: Sequence[_Span]) -> tuple[int, float, float]:
    """The most that were answered at once, and from when to when: the first and the last moment it was so many."""
    edges = sorted([(span.start, 1) for span in spans] + [(span.end, -1) for span in spans])
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
