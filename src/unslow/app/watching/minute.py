"""The phases of the last minute."""

from collections import deque

from unslow.think.view.live import PhaseNow, PhasesNow

MINUTE_S = 60.0
_MOST = 1000
"""Stretches that are kept: more than a minute has at the shortest interval."""


class Minute:
    """Stretches of time, each with its phase, as far back as a minute."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[float, float, PhaseNow, bool]] = deque(maxlen=_MOST)

    def add(self, start_s: float, end_s: float, phase: PhaseNow, *, queued: bool = False) -> None:
        """One stretch more; what is over a minute old is let go."""
        if end_s > start_s:
            self._pieces.append((start_s, end_s, phase, queued))
        while self._pieces and self._pieces[0][1] < end_s - MINUTE_S:
            self._pieces.popleft()

    def clear(self) -> None:
        """Nothing was seen yet."""
        self._pieces.clear()

    def phases(self, now: PhaseNow) -> PhasesNow:
        """Shares of what was seen."""
        total = sum(end - start for start, end, *_ in self._pieces)
        shares: dict[str, float] = {}
        for start, end, phase, _ in self._pieces:
            shares[phase] = shares.get(phase, 0.0) + (end - start) / total
        queued = sum(end - start for start, end, _, waits in self._pieces if waits) / total if total else 0.0
        return PhasesNow(now=now, minute=dict(sorted(shares.items(), key=lambda pair: -pair[1])), queued=queued)
