"""Telemetry made up for tests: figures that were sampled while tokens were generated."""

from typing import Any

from unslow.facts.run import GpuTelemetry, PhaseTelemetry, SamplerCost, Stat, Telemetry, Traffic
from unslow.facts.values import Known, measured_fact


def stat(mean: float, *, low: float | None = None, high: float | None = None, last: float | None = None) -> Stat:
    """A quantity that stayed as it was, unless told otherwise."""
    return Stat(
        mean=mean,
        low=mean if low is None else low,
        high=mean if high is None else high,
        last=mean if last is None else last,
        samples=20,
    )


def sampled(gpu: dict[str, Stat] | None = None, **host: Stat) -> Known[Telemetry]:
    """What one GPU and the host did while tokens were generated."""
    gpus = (GpuTelemetry(index=0, figures=gpu),) if gpu else ()
    phase = PhaseTelemetry(phase="decode", seconds=10.0, samples=20, gpus=gpus, host=host)
    cost = SamplerCost(seconds_per_sample=0.001, slowest_sample_s=0.01, cpus=0.01)
    return measured_fact(
        Telemetry(seconds=10.0, samples=20, asked_hz=2.0, got_hz=2.0, cost=cost, phases=(phase,)), "sampled"
    )


def traffic(running: float = 1.0, waiting: float = 0.0, **facts: Any) -> Known[Traffic]:
    """A server that was only watched, for ten seconds."""
    return measured_fact(Traffic(seconds=10.0, looks=20, running=running, waiting=waiting, **facts), "20 looks")
