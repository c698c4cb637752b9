"""The time of one generated token: bytes over bandwidth, plus what every layer and every step costs.

    time = device bytes / (efficiency x device bandwidth)
         + host bytes / (efficiency x host bandwidth) x threads in each other's way
         + layers x overhead of a layer + host work on the logits

The overhead of a layer grows with its width, because its small kernels do.
"""

from typing import NamedTuple

from unslow.think.physics.interval import Interval, around

REFERENCE_WIDTH = 4096
NARROW_SHARE = 0.44
"""Part of a layer's overhead that does not depend on width: 36 of 78 us, a 576- against a 4096-wide model (H200)."""

OVERSUBSCRIBED_COST = 0.45
"""Extra time for each thread per core beyond one: 16 threads on 2 cores were 5.5 times slower than 2 threads (0.64),
64 on 16 cores 1.9 times slower than 16 (0.29)."""


class Backend(NamedTuple):
    """What is learned of a backend on a family of devices; see `catalog/backends`."""

    efficiency: float
    layer_overhead_s: float
    spread: float


class Side(NamedTuple):
    """One kind of memory: how much of it a token reads, how fast, by how many layers."""

    bytes: float
    bytes_per_s: float
    layers: float
    backend: Backend
    spread: float


class Work(NamedTuple):
    """All that decides the time of one token."""

    device: Side | None
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


def layer_overhead_s(backend: Backend, width: float) -> float:
    """What one layer costs beyond its bytes."""
    return backend.layer_overhead_s * (NARROW_SHARE + (1 - NARROW_SHARE) * width / REFERENCE_WIDTH)


def _side_parts(side: Side, width: float, names: tuple[str, str]) -> list[Part]:
    reads = side.bytes / (side.backend.efficiency * side.bytes_per_s)
    overhead = side.layers * layer_overhead_s(side.backend, width)
    return [Part(names[0], reads, side.spread), Part(names[1], overhead, side.backend.spread)]


def decode_parts(work: Work) -> list[Part]:
    """The parts of the time of one token; their sum is the prediction."""
    parts: list[Part] = []
    if work.device:
        parts += _side_parts(work.device, work.width, ("device memory reads", "kernel launches"))
    if work.host:
        host = _side_parts(work.host, work.width, ("host memory reads", "host layer overhead"))
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
    sides = [s for s in (work.device, work.host) if s and s.bytes]
    seconds = sum(s.bytes / s.bytes_per_s for s in sides)
    return 1 / seconds if seconds else 0.0
