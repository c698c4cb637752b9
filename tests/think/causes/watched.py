"""Figures that were sampled while tokens were generated, made up for tests."""

from unslow.facts.run import GpuTelemetry, PhaseTelemetry, SamplerCost, Stat, Telemetry, Traffic


def stat(mean: float, *, low: float | None = None, high: float | None = None, last: float | None = None) -> Stat:
    """A figure: its mean, and where they are not the same its other values."""
    values = {"low": low, "high": high, "last": last}
    return Stat(mean=mean, samples=30, **{name: mean if value is None else value for name, value in values.items()})


def sampled(gpu: dict[str, Stat] | None = None, **host: Stat) -> Telemetry:
    """What one GPU and the host did in the decode phase."""
    gpus = (GpuTelemetry(index=0, figures=gpu),) if gpu else ()
    decode = PhaseTelemetry(phase="decode", seconds=3.0, samples=30, gpus=gpus, host=host)
    cost = SamplerCost(seconds_per_sample=1e-4, slowest_sample_s=1e-3, cpus=0.01)
    return Telemetry(seconds=3.0, samples=30, asked_hz=10.0, got_hz=10.0, cost=cost, phases=(decode,))


def traffic(running: float, waiting: float, **facts) -> Traffic:
    """What a server did for others while it was only watched."""
    return Traffic(seconds=10.0, looks=20, running=running, waiting=waiting, **facts)
