"""What the machine did while something was measured: summaries by the phase of a request."""

from typing import Literal

import msgspec

from unslow.facts.machine import Facts
from unslow.facts.values import Amount, Count, Fraction

Phase = Literal["queue", "load", "prefill", "decode", "idle"]
"""Where a request was; "idle" is whatever lies between requests."""


class Span(Facts, frozen=True, kw_only=True):
    """A stretch of time by the system's clock, and what went on in it."""

    phase: Phase
    start_s: Amount
    end_s: Amount


class Stat(Facts, frozen=True, kw_only=True):
    """A quantity over the samples of a phase."""

    mean: float
    low: float
    high: float
    last: float
    samples: Count


class GpuTelemetry(Facts, frozen=True, kw_only=True):
    """One GPU in one phase; `figures` by name with the unit in it, such as `power_w`."""

    index: Count
    name: str = ""
    figures: dict[str, Stat] = msgspec.field(default_factory=dict)
    reasons: dict[str, Fraction] = msgspec.field(default_factory=dict)
    """The share of the samples in which the driver named a reason for its clocks."""


class PhaseTelemetry(Facts, frozen=True, kw_only=True):
    """All devices in one phase, over every request of it."""

    phase: Phase
    seconds: Amount
    samples: Count
    gpus: tuple[GpuTelemetry, ...] = ()
    host: dict[str, Stat] = msgspec.field(default_factory=dict)


class SamplerCost(Facts, frozen=True, kw_only=True):
    """What watching itself took."""

    seconds_per_sample: Amount
    slowest_sample_s: Amount
    cpus: Amount
    """Processors that the watching thread used, on average."""


class TrackSeen(Facts, frozen=True, kw_only=True):
    """One column over time: `device` is the GPU's number, None for the host; None where there is no sample."""

    name: str
    """With its unit, such as `clock_hz`, `power_w`, `vram_used_bytes`, `busy`."""
    device: Count | None = None
    values: tuple[float | None, ...]


class ReasonSeen(Facts, frozen=True, kw_only=True):
    """When a driver named a reason for its clocks."""

    device: Count
    reason: str
    start_s: Amount
    end_s: Amount


class Timeline(Facts, frozen=True, kw_only=True):
    """What was sampled over time, thinned to what a picture can show; seconds count from the first sample."""

    times_s: tuple[Amount, ...]
    tracks: tuple[TrackSeen, ...]
    spans: tuple[Span, ...] = ()
    reasons: tuple[ReasonSeen, ...] = ()


class Telemetry(Facts, frozen=True, kw_only=True):
    """Everything that was watched."""

    seconds: Amount
    samples: Count
    asked_hz: Amount
    got_hz: Amount
    late: Count = 0
    """Samples that came more than a whole period late."""
    cost: SamplerCost
    phases: tuple[PhaseTelemetry, ...] = ()
    unread: dict[str, str] = msgspec.field(default_factory=dict)
    """Sources that could not be read, and why."""
    timeline: Timeline | None = None
    """The same over time, where it was kept."""
