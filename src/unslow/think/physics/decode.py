"""The time of one generated token of a diagnosed machine: what its GPUs take, what its CPU takes, what sampling takes.

The CPU's side is a share of the bandwidth that was measured on the machine, which says more than a catalogue:

    time = host bytes / (efficiency x host bandwidth) + layers x overhead, times threads in each other's way
"""

from collections.abc import Mapping
from typing import NamedTuple

from unslow.think.physics.decoding import REFERENCE_WIDTH
from unslow.think.physics.interval import Interval, around

NARROW_SHARE = 0.44
"""Part of a layer's overhead that does not depend on width: 36 of 78 us, a 576- against a 4096-wide model (H200)."""

OVERSUBSCRIBED_COST = 0.45
"""Extra time for each thread per core beyond one: 16 threads on 2 cores were 5.5 times slower than 2 threads (0.64),
64 on 16 cores 1.9 times slower than 16 (0.29)."""


class Backend(NamedTuple):
    """What is learned of a CPU; see `catalog/backends`."""

    efficiency: float
    layer_overhead_s: float
    spread: float


class Side(NamedTuple):
    """The host's memory: how much of it a token reads, how fast, by how many layers."""

    bytes: float
    bytes_per_s: float
    layers: float
    backend: Backend
    spread: float


class Device(NamedTuple):
    """The GPUs: what they take by part of the budget, what bandwidth alone would take, and how far off that may be."""

    seconds: Mapping[str, float]
    least_s: float
    spread: float


class Work(NamedTuple):
    """All that decides the time of one token."""

    device: Device | None
    host: Side | None
    width: float
    vocabulary: float
    logits_s_per_entry: float
    threads_per_core: float = 1.0


class Part(NamedTuple):
    """A share of the time of a token, and how far off it may be, as a factor."""

    name: str
    seconds: float
    spread: float


def _overhead_s(backend: Backend, width: float) -> float:
    """What one layer costs beyond its bytes."""
    return backend.layer_overhead_s * (NARROW_SHARE + (1 - NARROW_SHARE) * width / REFERENCE_WIDTH)


def _host_parts(side: Side, width: float) -> list[Part]:
    reads = side.bytes / (side.backend.efficiency * side.bytes_per_s)
    overhead = side.layers * _overhead_s(side.backend, width)
    return [Part("host memory reads", reads, side.spread), Part("host layer overhead", overhead, side.backend.spread)]


def decode_parts(work: Work) -> list[Part]:
    """The parts of the time of one token; their sum is the prediction."""
    parts: list[Part] = []
    if work.device:
        parts += [Part(name, seconds, work.device.spread) for name, seconds in work.device.seconds.items()]
    if work.host:
        host = _host_parts(work.host, work.width)
        parts += host
        crowd = OVERSUBSCRIBED_COST * max(0.0, work.threads_per_core - 1) * sum(p.seconds for p in host)
        parts.append(Part("threads in each other's way", crowd, 2.0))
    parts.append(Part("sampling", work.vocabulary * work.logits_s_per_entry, 2.0))
    return [p for p in parts if p.seconds > 0]


def total_seconds(parts: list[Part]) -> Interval:
    """The sum, with an interval as wide as its largest parts make it."""
    seconds = sum(p.seconds for p in parts)
    spread = sum(p.seconds * p.spread for p in parts) / seconds
    return around(seconds, spread)


def ceiling_tokens_per_s(work: Work) -> float:
    """What bandwidth alone allows: no measurement of one stream can beat it."""
    seconds = work.device.least_s if work.device else 0.0
    if work.host and work.host.bytes:
        seconds += work.host.bytes / work.host.bytes_per_s
    return 1 / seconds if seconds else 0.0
