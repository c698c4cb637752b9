"""Puts the runtime's own words for each knob into the report."""

import msgspec

from unslow.facts.knob import Change, Knob
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot
from unslow.look.machine_knobs import spell_machine
from unslow.look.runtimes import looker_of
from unslow.think.report import Finding, Fix, Report, SubjectReport


def spelled(report: Report, snapshot: Snapshot) -> Report:
    """The report with commands for every fix that the runtime can spell."""
    subjects = tuple(_subject(s, snapshot.subjects[s.number].runtime) for s in report.subjects)
    return msgspec.structs.replace(report, subjects=subjects)


def _subject(subject: SubjectReport, runtime: Runtime) -> SubjectReport:
    return msgspec.structs.replace(subject, findings=tuple(_finding(f, runtime) for f in subject.findings))


def _finding(finding: Finding, runtime: Runtime) -> Finding:
    return msgspec.structs.replace(finding, fixes=tuple(_fix(f, runtime) for f in finding.fixes))


def _fix(fix: Fix, runtime: Runtime) -> Fix:
    change = Change(Knob(fix.knob), fix.value, fix.why)
    return msgspec.structs.replace(fix, commands=tuple(spell_machine(change) or spell(change, runtime)))


def spell(change: Change, runtime: Runtime) -> list[str]:
    """The change in the words of whatever runtime it is; none for one that is not known."""
    looker = looker_of(runtime.name.value_or(""))
    return looker.spell(change, runtime) if looker else []
