"""What was watched and tried while a server generated, made up for tests."""

from cases import with_facts

from unslow.facts.run import AtDepth, GpuTelemetry, PhaseTelemetry, SamplerCost, Stat, Telemetry
from unslow.facts.snapshot import Case
from unslow.facts.values import Known


def stat(mean: float, low: float | None = None, samples: int = 30) -> Stat:
    return Stat(mean=mean, low=mean if low is None else low, high=mean, last=mean, samples=samples)


def watched(case: Case, *, phase: str = "decode", host=None, gpu=None) -> Case:
    """The case with these figures watched in one more phase."""
    figures = {name: stat(value) for name, value in (gpu or {}).items()}
    seen = PhaseTelemetry(
        phase=phase, seconds=3.0, samples=30, gpus=(GpuTelemetry(index=0, figures=figures),) if figures else (),
        host={name: stat(value) for name, value in (host or {}).items()},
    )  # fmt: skip
    before = case.run.telemetry.value.phases if isinstance(case.run.telemetry, Known) else ()
    cost = SamplerCost(seconds_per_sample=1e-4, slowest_sample_s=1e-3, cpus=0.01)
    telemetry = Telemetry(seconds=3.0, samples=30, asked_hz=10.0, got_hz=10.0, cost=cost, phases=(*before, seen))
    return with_facts(case, {"run.telemetry": telemetry})


def at_depths(case: Case, *speeds: tuple[int, float]) -> Case:
    """The case with its speed tried at these depths."""
    return with_facts(case, {"run.depths": tuple(AtDepth(depth_tokens=d, tokens_per_s=s) for d, s in speeds)})
