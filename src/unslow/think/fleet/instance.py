"""One engine of a fleet, judged: what its report says, and what it loses."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.fleet.flat_facts import flat_facts
from unslow.think.fleet.gpu_time import gpus_held
from unslow.think.fleet.judged import About, Judged, weightiest_first
from unslow.think.fleet.losses import loss_of
from unslow.think.fleet.report import Instance
from unslow.think.report import SubjectReport

UNKNOWN_HARDWARE = "unknown hardware"
"""As the judge calls it; no name of a device."""


def judged_instance(about: About, case: Case, report: SubjectReport) -> Judged:
    """The instance that a report is about, with its losses, and its facts to compare it by."""
    traffic = case.run.traffic
    seen = traffic.value if isinstance(traffic, Known) else None
    lost = loss_of(case, report, about)
    instance = Instance(
        key=about.key,
        host=about.host,
        labels=about.labels,
        runtime=case.runtime.name.value_or(report.runtime),
        version=case.runtime.version.value_or(""),
        model=report.model,
        devices=tuple(name for name in report.devices if name != UNKNOWN_HARDWARE),
        gpus=gpus_held(case),
        verdict=report.verdict,
        summary=report.summary,
        phase=report.phase,
        running=seen.running if seen else None,
        at_once=(seen.each_among or None) if seen else None,
        tokens_per_s=seen.tokens_per_s.value_or(None) if seen else None,
        measured=report.measured,
        expected=report.expected,
        findings=report.findings,
        by_itself=weightiest_first(about),
        cannot_tell=len(report.cannot_tell),
        lost=lost.loss,
        lost_by=lost.by_cause,
        notes=(*about.notes, *report.notes),
    )
    return Judged(instance, flat_facts(case))
