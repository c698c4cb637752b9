"""How long a phase lasted in all, where requests overlap: time that two share counts once."""

from bisect import bisect_left, bisect_right
from math import inf

MOST_PIECES = 512
"""Stretches kept apart; when there are more, the older half is summed up and takes no more part in overlaps."""


class Union:
    """Stretches of time without overlaps, in order, and the sum of those that were let go."""

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []
        self._closed_s, self._floor_s = 0.0, -inf

    def add(self, start_s: float, end_s: float) -> None:
        """One stretch more; it may lie anywhere."""
        start_s = max(start_s, self._floor_s)
        if not start_s < end_s < inf:
            return
        first, last = bisect_left(self._ends, start_s), bisect_right(self._starts, end_s)
        if first < last:
            start_s, end_s = min(start_s, self._starts[first]), max(end_s, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start_s], [end_s]
        if len(self._starts) > MOST_PIECES:
            self._let_go(MOST_PIECES // 2)

    def _let_go(self, pieces: int) -> None:
        self._closed_s += sum(self._ends[:pieces]) - sum(self._starts[:pieces])
        self._floor_s = self._ends[pieces - 1]
        del self._starts[:pieces], self._ends[:pieces]

    def pieces(self) -> list[tuple[float, float]]:
        """The stretches that are kept, in order."""
        return list(zip(self._starts, self._ends, strict=True))

    @property
    def seconds(self) -> float:
        """All of it."""
        return self._closed_s + sum(end - start for start, end in zip(self._starts, self._ends, strict=True))
