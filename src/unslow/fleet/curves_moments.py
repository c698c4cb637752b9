"""Curves as moments: what each instance did in each window, put together with whom it belongs to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from unslow.fleet.answered import Curve
from unslow.think.fleet.capacity_curve import quantile
from unslow.think.fleet.capacity_moments import Load, Moment

FEWEST_TOKENS = 20.0
"""In a window: the gaps of fewer tell no speed."""
FEWEST_REQUESTS = 0.01
"""At once, in the mean of a window: of less there are no tokens."""
SHORTEST_GAP_S, LONGEST_GAP_S = 1e-6, 1e4
"""Between two tokens: nothing real is outside of it."""
FEWEST_SPREAD = 3
"""Instances from which on it makes sense to say that some have more to do than others."""
LARGEST = 1e12
"""Of any value: what is larger, below nought or no number at all was not measured."""
_BUSIEST, _FULLEST = 0.9, 0.9
"""Moments with more to do than nine of ten, and the instances that have more than nine of ten."""

_BESIDE = ("uneasy", "tokens_per_s", "gap_s", "first_token_s", "waiting", "cache_used")
Row = list[float | None]
"""A value for each moment of the grid; None where there was none."""


class Grid(NamedTuple):
    """The moments that were asked for: each tells of the window before it."""

    start_s: float
    step_s: float
    points: int
    window_s: float

    @property
    def end_s(self) -> float:
        """The last of them."""
        return self.start_s + self.step_s * (self.points - 1)

    def row(self, curve: Curve) -> Row:
        """The values of a curve at their places."""
        row: Row = [None] * self.points
        for time_s, value in zip(curve.times_s, curve.values, strict=True):
            place = round((time_s - self.start_s) / self.step_s)
            if 0 <= place < self.points and 0 <= value <= LARGEST:
                row[place] = value
        return row


def moments_of(rows: Mapping[str, Row], window_s: float) -> Iterator[Moment]:
    """The moments of one instance in which it made enough tokens to tell their speed; `rows` by names of queries."""
    running = rows.get("running")
    if running is None:  # not answered, or told by nobody: without it no speed has a load
        return
    nothing: Row = [None] * len(running)
    others = (rows.get(name, nothing) for name in _BESIDE)
    for requests, uneasy, tokens, gap, first, waiting, cache in zip(running, *others, strict=True):
        if not requests or requests < FEWEST_REQUESTS or not tokens or tokens * window_s < FEWEST_TOKENS:
            continue
        # where nothing tells the gap, Little's law does: requests at once over what they get together
        gap_s = gap or requests / tokens
        if SHORTEST_GAP_S <= gap_s <= LONGEST_GAP_S:
            until_first = first if first and first >= SHORTEST_GAP_S else None
            yield Moment(shared_by(requests, uneasy), gap_s, until_first, waiting, cache)


def shared_by(requests: float, uneasy: float | None) -> float:
    """How many requests a token shared its step with, in the mean over tokens.

    More tokens are made while there are more requests, so their mean is above that over time, by the variance.
    """
    return max(1.0, requests + (uneasy or 0.0) ** 2 / requests)


def load_of(running: Sequence[Row]) -> Load:
    """Requests at once of a group, over the moments in which any of it was seen."""
    seen = [[value for value in column if value is not None] for column in zip(*running, strict=True)]
    sums = [sum(column) for column in seen if column]
    if not sums:
        return Load()
    least = quantile(sorted(sums), _BUSIEST)
    uneven = sorted(
        _unevenness(column) for column in seen if len(column) >= FEWEST_SPREAD and sum(column) >= max(least, 1.0)
    )
    return Load(sum(sums) / len(sums), max(sums), quantile(uneven, 0.5) if uneven else None)


def _unevenness(column: Sequence[float]) -> float:
    return quantile(sorted(column), _FULLEST) * len(column) / sum(column)
