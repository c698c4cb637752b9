"""Changes as the lines that a user copies, for the runtime that runs or one that the user names."""

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from unslow.catalog.hardware_families import gpu_maker
from unslow.facts.commands import Commands
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.values import MIB, NOT_LOOKED, Known, Origin, estimated_fact, first_known, reported_fact
from unslow.look.command_line import is_absolute_path
from unslow.look.command_writer import AtHand
from unslow.look.command_writer.machine_knobs import Host, spell_machine
from unslow.look.command_writer.starters import NO_UNIT, Unit, lines_for_system, read_unit
from unslow.look.runtimes import looker_named, looker_of, names, writer_of
from unslow.look.system import LookError, System
from unslow.think.case.view import CaseView, views_of
from unslow.think.judge.headline import REMOVE_SETTING
from unslow.think.judge.summary import summary
from unslow.think.report import Finding, Fix, Report, SubjectReport

SHORTEST_CONTEXT = 4096
MOST_WIRED = 0.85  # Of the memory that a Mac has: what is left runs the system
_BACKENDS = {"NVIDIA": "CUDA", "AMD": "ROCm", "Apple": "Metal", "Intel": "Vulkan"}
_ONE_FOR_ALL = "model_reloads_between_requests"
"""The one cause that asks for a context that all share, not for a shorter one."""
_HEAD_BYTES = 4
_NAME = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,120}")
_SYSTEMS = {"win32": "Windows", "darwin": "macOS"}
_HERE = reported_fact(_SYSTEMS[sys.platform], "this machine") if sys.platform in _SYSTEMS else NOT_LOOKED


def commands_for(
    changes: Sequence[Change],
    case: CaseView,
    *,
    system: System | None = None,
    program: str = "",
    name: str = "",
    anew: bool = False,
) -> Commands:
    """All changes at once, of the runtime and the model of a case; `name` is the runtime's where nothing runs yet.

    With a live system, the program at hand is asked which flags it has, and files are looked at before they are named.
    `anew` says that the changes are all there is to say to the runtime; so they are where nothing runs.
    """
    anew = anew or not isinstance(case.runtime.name, Known)
    case = _at_home(case, name)
    host = Host(case.system.family, case.system.gpu_makers, case.system.container, case.system.unit)
    of_machine = {change.knob: lines for change in changes if (lines := spell_machine(change, host))}
    of_runtime = [change for change in changes if change.knob not in of_machine]
    files = [change for change in of_runtime if change.knob is Knob.MODEL_FILE]
    missing = [file for file in files if system is not None and not _can_be_read(str(file.value), system)]
    there = [change for change in of_runtime if change not in missing]
    written = _of_runtime(there, case, AtHand(case.model, program=program, anew=anew), system)
    lines = [line for spelled in of_machine.values() for line in spelled]
    return msgspec.structs.replace(
        written,
        short=tuple(lines_for_system(written.short, host.system)),
        lines=tuple(lines_for_system([*lines, *written.lines], host.system)),
        left_out=(*((file, f"{file.value} is not readable here") for file in missing), *written.left_out),
    )


def _of_runtime(changes: Sequence[Change], case: CaseView, at_hand: AtHand, system: System | None) -> Commands:
    if not changes:
        return Commands()
    looker = looker_of(case.runtime.name.value_or(""))
    if looker is None:
        raise UserError("the runtime of the plan is unknown", "name it, for example llama_cpp or ollama")
    # What the program itself says that it has: the very one that runs, or the one that the user names
    options: Mapping[str, str] = {}
    read_own, read_named = getattr(looker, "read_own_options", None), getattr(looker, "read_options", None)
    if system is not None and read_own and read_named:
        if isinstance(case.runtime.process.pid, Known):
            options = read_own(system, case.runtime)
        elif at_hand.program:
            options = read_named(system, at_hand.program)
    listed = frozenset(str(f.value) for f in (case.model.name, case.model.path) if isinstance(f, Known))
    at_hand = at_hand._replace(unit=_unit(case.runtime, system), options=dict(options), listed=listed)
    writer = writer_of(looker)
    written = writer.commands_for(changes, case.runtime, at_hand)
    if not written.lines and [change.knob for change in changes] == [Knob.NATIVE_BUILD]:
        return writer.commands_for([Knob.VERSION.to(None)], case.runtime, at_hand)  # its packages fit every CPU
    return written


def _at_home(case: CaseView, name: str) -> CaseView:
    """The case with what its lines are written for: the runtime's system, all layers, and the runtime's own names."""
    runtime, model = case.runtime, case.model
    if name and not isinstance(runtime.name, Known):
        typed = re.findall(r"[^\s._-]+", name.lower())  # llama.cpp, llama_cpp, LM Studio, lm-studio
        looker = looker_named("_".join(typed))
        if looker is None:
            raise UserError(f"unknown runtime {name}", f"known are {', '.join(names())}")
        here = first_known(runtime.process.system, _HERE)  # what does not run yet is started here
        runtime = runtime.with_facts(name=reported_fact(looker.NAME, "given"), system=here)
    system, layers = first_known(runtime.process.system, case.machine.system.name), runtime.placement.layers
    if isinstance(model.layers, Known) and not isinstance(layers, Known):
        layers = estimated_fact(model.layers.value + 1, f"{model.layers.source}, and the output")
    # A person's word for the model, or the title in its file, may be no runtime's name for it
    called = model.name
    if not isinstance(called, Known) or called.origin is Origin.TOLD or not _NAME.fullmatch(called.value):
        model = msgspec.structs.replace(model, name=NOT_LOOKED)
    runtime = runtime.with_facts(system=system, layers=layers)
    return CaseView(Case(machine=case.machine, runtime=runtime, model=model))


def _unit(runtime: Runtime, system: System | None) -> Unit:
    """The service that starts it, by its control group now, else by the limits that were seen of it."""
    if isinstance(runtime.process.unit, Known):
        return Unit.from_text(runtime.process.unit.value)
    pid = runtime.process.pid.value_or(0)
    if system is not None and pid:
        return read_unit(system, pid)
    name = CaseView(Case(runtime=runtime)).system.unit
    return Unit(name) if name and not name.startswith("user@") else NO_UNIT


def _can_be_read(path: str, system: System) -> bool:
    """Whether a path leads to a file or a folder; a name that is no path is for the runtime to know."""
    if not is_absolute_path(path):
        return True
    for read in (lambda: system.read_head(path, _HEAD_BYTES), lambda: system.list_dir(path)):
        with suppress(LookError):
            return bool(read())
    return False


def with_fix_commands(report: Report, snapshot: Snapshot) -> Report:
    """The report with commands for every fix that the runtime can spell."""
    cases = list(views_of(snapshot))
    subjects = tuple(subject_with_fix_commands(subject, cases[subject.number]) for subject in report.subjects)
    return msgspec.structs.replace(report, subjects=subjects)


def subject_with_fix_commands(subject: SubjectReport, case: CaseView) -> SubjectReport:
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
            why = fix.why if removes else fix.why.removeprefix(REMOVE_SETTING)
            again = len(lines) > 1 and lines in seen  # the same commands only where they come first
            seen.add(lines)
            why = f"{why} (as above)" if again else why
            fixes.append(msgspec.structs.replace(fix, commands=() if again else lines, why=why))
        findings.append(msgspec.structs.replace(finding, fixes=tuple(fixes)))
    # the first fix is told as a command
    return summary(case, msgspec.structs.replace(subject, findings=tuple(findings)))


def _value(fix: Fix, finding: Finding, case: CaseView) -> Setting:
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
    total = runtime.context.length
    of_one = runtime.context.per_slot if isinstance(runtime.context.per_slot, Known) else total
    alone = isinstance(total, Known) and total.origin is Origin.ESTIMATED
    if runtime.name.value_or("") == "Ollama" and isinstance(of_one, Known) and (alone or of_one is not total):
        return int(of_one.value) * max(1, runtime.scheduling.slots.value_or(1))
    return int(total.value_or(0))
