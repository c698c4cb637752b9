"""The time of one generated token of a diagnosed machine: what its GPUs take, what its CPU takes, what sampling takes.

What either side takes are the terms of `decoding` and `host_decoding`; a CPU's are with the bandwidth that was measured
on the machine, which says more than a catalogue. Threads in each other's way and a quota come on top.
"""

from collections.abc import Mapping
from typing import NamedTuple

from unslow.think.physics.crowding import CROWDING_SPREAD
from unslow.think.physics.interval import Interval, around

CROWD, QUOTA, SAMPLING = "threads in each other's way", "stopped by the quota", "sampling"
_QUOTA_SPREAD, _SAMPLING_SPREAD = 1.3, 2.0
_FEW_TIMES = 2.0
"""By how many times a quota was exceeded where its cost was measured; beyond, it is as uncertain as any crowd."""


class Part(NamedTuple):
    """A share of the time of a token, and how far off it may be, as a factor."""

    name: str
    seconds: float
    spread: float


class Side(NamedTuple):
    """The GPUs or the CPU: what they take by part of the budget, what bandwidth alone would take, how far off it is."""

    seconds: Mapping[str, float]
    least_s: float
    spread: float


class Work(NamedTuple):
    """All that decides the time of one token."""

    device: Side | None
    host: Side | None
    vocabulary: float
    logits_s_per_entry: float
    crowding_s: float = 0.0
    """What the host's threads lose to each other."""
    throttling: float = 1.0
    """How many times longer the host takes under its quota."""
    beside: tuple[Part, ...] = ()
    """What settings cost that have nothing to do with how much is read: copies, crossings, sorting."""

    @property
    def is_hindered(self) -> bool:
        """Whether threads outnumber processors, or use up a quota."""
        return self.crowding_s > 0 or self.throttling > 1


def decode_parts(work: Work) -> list[Part]:
    """The parts of the time of one token; their sum is the prediction."""
    parts: list[Part] = []
    for side in (work.device, work.host):
        parts += [Part(name, seconds, side.spread) for name, seconds in side.seconds.items()] if side else []
    if work.host:
        computing = sum(work.host.seconds.values()) + work.crowding_s
        parts.append(Part(CROWD, work.crowding_s, CROWDING_SPREAD))
        spread = _QUOTA_SPREAD if work.throttling <= _FEW_TIMES else CROWDING_SPREAD
        parts.append(Part(QUOTA, computing * (work.throttling - 1), spread))
    parts.append(Part(SAMPLING, work.vocabulary * work.logits_s_per_entry, _SAMPLING_SPREAD))
    return [part for part in (*parts, *work.beside) if part.seconds > 0]


def total_seconds(parts: list[Part]) -> Interval:
    """The sum, with an interval as wide as its largest parts make it."""
    seconds = sum(p.seconds for p in parts)
    spread = sum(p.seconds * p.spread for p in parts) / seconds
    return around(seconds, spread)


def ceiling_tokens_per_s(work: Work) -> float:
    """What bandwidth alone allows: no measurement of one stream can beat it."""
    seconds = sum(side.least_s for side in (work.device, work.host) if side)
    return 1 / seconds if seconds else 0.0
