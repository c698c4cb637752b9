"""The fixes of a report as the lines that a user copies."""

import msgspec

from unslow.catalog.hardware_families import gpu_maker
from unslow.commands._command_lines import commands_for
from unslow.facts.commands import Commands
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.values import MIB, Known, Origin
from unslow.think.judge.summary import summary
from unslow.think.report import Finding, Fix, Report, SubjectReport

SHORTEST_CONTEXT = 4096
MOST_WIRED = 0.85  # Of the memory that a Mac has: what is left runs the system
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
    findings = []
    for finding in subject.findings:
        fixes = []
        for fix in finding.fixes:
            try:
                commands = commands_for([Change(Knob(fix.knob), _value(fix, finding, case), fix.why)], case)
            except UserError:  # of a runtime that is not known
                commands = Commands()
            lines = (*commands.short, *commands.lines)  # from the shortest words to the whole command
            # The word of the cause, unless it speaks of removing what is rather set to another value
            removes = not lines or lines[0].startswith(("remove ", "start it without "))
            why = fix.why if removes else fix.why.removeprefix("remove the setting: ")
            again = len(lines) > 1 and lines in seen  # the same commands only where they come first
            seen.add(lines)
            why = f"{why} (as above)" if again else why
            fixes.append(msgspec.structs.replace(fix, commands=() if again else lines, why=why))
        findings.append(msgspec.structs.replace(finding, fixes=tuple(fixes)))
    # the first fix is told as a command
    return summary(case, msgspec.structs.replace(subject, findings=tuple(findings)))


def _value(fix: Fix, finding: Finding, case: Case) -> Setting:
    match Knob(fix.knob), fix.value:
        case Knob.CONTEXT_LENGTH, None:
            # Half of what it has now, where that is known and long; the very same where every client shall have one
            now = _context_now(case.runtime)
            if finding.cause == _ONE_FOR_ALL:
                return now or None
            return now // 2 if now // 2 >= SHORTEST_CONTEXT else None
        case Knob.GPU_BACKEND, None:
            # The backend of the GPU there is; None of no GPU, or of several makers
            makers = {gpu_maker(gpu) for gpu in case.machine.gpus.value_or(())} - {""}
            return _BACKENDS.get(makers.pop()) if len(makers) == 1 else None
        case Knob.WIRED_LIMIT, int(mebibytes):
            return min(mebibytes, int(MOST_WIRED * case.machine.memory.total_bytes.value_or(0) / MIB) or mebibytes)
        case _, value:
            return value


def _context_now(runtime: Runtime) -> int:
    """The tokens of all requests together; what Ollama tells is often the context of one."""
    total = runtime.context_length
    of_one = runtime.context_per_slot if isinstance(runtime.context_per_slot, Known) else total
    alone = isinstance(total, Known) and total.origin is Origin.ESTIMATED
    if runtime.name.value_or("") == "Ollama" and isinstance(of_one, Known) and (alone or of_one is not total):
        return int(of_one.value) * max(1, runtime.slots.value_or(1))
    return int(total.value_or(0))
