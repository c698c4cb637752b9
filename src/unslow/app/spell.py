"""Puts the runtime's own words for each knob into the report."""

from collections.abc import Iterator

import msgspec

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.units import MIB
from unslow.facts.values import Known, Origin, estimated, first_known
from unslow.look.machine_knobs import Host, spell_machine
from unslow.look.runtimes import looker_of
from unslow.look.shells import for_system
from unslow.think.adapt.surroundings import container_of, makers_of, system_of, unit_of
from unslow.think.gpu_makers import maker_of
from unslow.think.placeholders import filled
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
    host = Host(system_of(case), makers_of(case), container_of(case), unit_of(case))
    for fix in finding.fixes:
        change = Change(Knob(fix.knob), _value(fix, finding, case), fix.why)
        lines = for_system(spell_machine(change, host) or spell(change, _at_home(case)), host.system)
        yield msgspec.structs.replace(fix, commands=tuple(filled(line, case) for line in lines), why=_why(fix, lines))


def _at_home(case: Case) -> Runtime:
    """The runtime with the system that it is seen to run on, for which lines are spelled, and all layers there are."""
    system, layers = first_known(case.runtime.system, case.machine.system.name), case.model.layers
    if isinstance(layers, Known) and not isinstance(case.runtime.layers, Known):
        counted = estimated(layers.value + 1, f"{layers.source}, and the output")
        return msgspec.structs.replace(case.runtime, system=system, layers=counted)
    return msgspec.structs.replace(case.runtime, system=system)


def _why(fix: Fix, lines: list[str]) -> str:
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


def spell(change: Change, runtime: Runtime) -> list[str]:
    """The change in the words of whatever runtime it is; none for one that is not known."""
    looker = looker_of(runtime.name.value_or(""))
    lines = looker.spell(change, runtime) if looker else []
    if not lines and change.knob is Knob.NATIVE_BUILD:
        return spell(Knob.VERSION.to(None, change.why), runtime)  # whose own packages hold one for every kind of CPU
    return lines
