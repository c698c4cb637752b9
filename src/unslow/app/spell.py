"""Puts the runtime's own words for each knob into the report."""

from collections.abc import Iterator, Sequence

import msgspec

from unslow.app.commands import commands_for
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.units import MIB
from unslow.facts.values import Known, Origin
from unslow.think.gpu_makers import maker_of
from unslow.think.report import Finding, Fix, Report, SubjectReport
from unslow.think.summary import summary

SHORTEST_CONTEXT = 4096
MOST_WIRED = 0.85
"""Of the memory that a Mac has: what is left runs the system."""
_BACKENDS = {"NVIDIA": "CUDA", "AMD": "ROCm", "Apple": "Metal", "Intel": "Vulkan"}
_ONE_FOR_ALL = "model_reloads_between_requests"
"""The one cause that asks for a context that all share, not for a shorter one."""


def spelled(report: Report, snapshot: Snapshot) -> Report:
    """The report with commands for every fix that the runtime can spell."""
    cases = list(snapshot.cases())
    subjects = tuple(spelled_subject(subject, cases[subject.number]) for subject in report.subjects)
    return msgspec.structs.replace(report, subjects=subjects)


def spelled_subject(subject: SubjectReport, case: Case) -> SubjectReport:
    """The same of one subject."""
    seen: set[tuple[str, ...]] = set()
    findings = tuple(
        msgspec.structs.replace(finding, fixes=tuple(_said_once(_fixes(finding, case), seen)))
        for finding in subject.findings
    )
    # the first fix is told as a command
    return summary(case, msgspec.structs.replace(subject, findings=findings))


def _said_once(fixes: Iterator[Fix], seen: set[tuple[str, ...]]) -> Iterator[Fix]:
    """The fixes, the same commands only where they come first."""
    for fix in fixes:
        again = len(fix.commands) > 1 and fix.commands in seen
        seen.add(fix.commands)
        yield msgspec.structs.replace(fix, commands=(), why=f"{fix.why} (as above)") if again else fix


def _fixes(finding: Finding, case: Case) -> Iterator[Fix]:
    for fix in finding.fixes:
        lines = _lines(Change(Knob(fix.knob), _value(fix, finding, case), fix.why), case)
        yield msgspec.structs.replace(fix, commands=lines, why=_why(fix, lines))


def _lines(change: Change, case: Case) -> tuple[str, ...]:
    """From the shortest words to the whole command; none for a runtime that is not known."""
    try:
        commands = commands_for([change], case)
    except UserError:
        return ()
    return (*commands.short, *commands.lines)


def _why(fix: Fix, lines: Sequence[str]) -> str:
    """The word of the cause, unless it speaks of removing what is rather set to another value."""
    removes = not lines or lines[0].startswith(("remove ", "start it without "))
    return fix.why if removes else fix.why.removeprefix("remove the setting: ")


def _value(fix: Fix, finding: Finding, case: Case) -> Setting:
    """The value to spell: what the cause says, else what the case suggests."""
    match Knob(fix.knob), fix.value:
        case Knob.CONTEXT_LENGTH, None:
            return _context(finding, case)
        case Knob.GPU_BACKEND, None:
            return _backend(case)
        case Knob.WIRED_LIMIT, int(mebibytes):
            return min(mebibytes, _most_wired(case) or mebibytes)
        case _, value:
            return value


def _context(finding: Finding, case: Case) -> int | None:
    """Half of what it has now, where that is known and long; the very same where every client shall have one."""
    now = _context_now(case.runtime)
    if finding.cause == _ONE_FOR_ALL:
        return now or None
    return now // 2 if now // 2 >= SHORTEST_CONTEXT else None


def _context_now(runtime: Runtime) -> int:
    """The tokens of all requests together; what Ollama tells is often the context of one."""
    total = runtime.context_length
    of_one = runtime.context_per_slot if isinstance(runtime.context_per_slot, Known) else total
    alone = isinstance(total, Known) and total.origin is Origin.ESTIMATED
    if runtime.name.value_or("") == "Ollama" and isinstance(of_one, Known) and (alone or of_one is not total):
        return int(of_one.value) * max(1, runtime.slots.value_or(1))
    return int(total.value_or(0))


def _backend(case: Case) -> str | None:
    """The backend of the GPU there is; None of no GPU, or of several makers."""
    makers = {maker_of(gpu) for gpu in case.machine.gpus.value_or(())} - {""}
    return _BACKENDS.get(makers.pop()) if len(makers) == 1 else None


def _most_wired(case: Case) -> int:
    return int(MOST_WIRED * case.machine.memory.total_bytes.value_or(0) / MIB)
