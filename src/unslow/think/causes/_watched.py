"""What was watched while tokens were generated, as a cause asks for it."""

from unslow.facts.snapshot import Case
from unslow.facts.telemetry import Phase, PhaseTelemetry, Stat
from unslow.facts.values import Known
from unslow.think.adapt.gpu_load import watched_gpus
from unslow.think.report import Evidence

ENOUGH_SAMPLES = 3
"""Of a figure in a phase: fewer may be what was left of the phase before."""


def in_phase(case: Case, phase: Phase) -> PhaseTelemetry | None:
    """All devices in one phase; None where nobody watched, or no request was in it."""
    telemetry = case.run.telemetry
    phases = telemetry.value.phases if isinstance(telemetry, Known) else ()
    return next((p for p in phases if p.phase == phase and p.samples), None)


def host_figure(case: Case, name: str, phase: Phase = "decode") -> Stat | None:
    """A figure of the whole machine, such as `major_faults_per_s`; None where it was not watched."""
    seen = in_phase(case, phase)
    return seen.host.get(name) if seen else None


def host_at_work(case: Case, name: str) -> Stat | None:
    """The figure while tokens were generated; over all that was watched, where no request came to its end meanwhile."""
    found = host_figure(case, name)
    if found is None and in_phase(case, "decode") is None and isinstance(case.run.decode_tokens_per_s, Known):
        found = host_figure(case, name, "idle")
    return found if found and found.samples >= ENOUGH_SAMPLES else None


def gpu_figure(case: Case, name: str, phase: Phase = "decode") -> Stat | None:
    """A figure of the runtime's GPU on which it is highest, such as `pcie_receive_bytes_per_s`."""
    seen = in_phase(case, phase)
    found = [g.figures[name] for g in watched_gpus(case, seen.gpus if seen else ()) if name in g.figures]
    return max(found, key=lambda stat: stat.mean, default=None)


def cite_watched(case: Case, name: str, value: str, reference: str | None = None) -> Evidence:
    """A watched figure as evidence, in words that tell its unit."""
    known = case.run.telemetry
    origin, source = (str(known.origin), known.source) if isinstance(known, Known) else ("measured", "")
    return Evidence(fact=f"run.telemetry.{name}", value=value, reference=reference, origin=origin, source=source)
