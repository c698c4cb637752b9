"""Changes as the lines that a user copies, for the runtime that runs or one that the user names."""

import re
import sys
from collections.abc import Iterator, Sequence

import msgspec

from unslow.catalog.hardware_families import gpu_maker
from unslow.facts.commands import Commands
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.values import MIB, NOT_LOOKED, Known, Origin, estimated, first_known, reported
from unslow.look.command_line import is_absolute_path
from unslow.look.command_writer import NO_UNIT, AtHand, Unit, lines_for_system
from unslow.look.machine_knobs import Host, spell_machine
from unslow.look.running_server import read_unit
from unslow.look.runtimes import Looker, looker_of, lookers
from unslow.look.system import LookError, System
from unslow.think.case.instructions import container_of, makers_of, system_of, unit_of
from unslow.think.judge.summary import summary
from unslow.think.report import Finding, Fix, Report, SubjectReport

_HEAD_BYTES = 4
_NAME = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,120}")
_SYSTEMS = {"win32": "Windows", "darwin": "macOS"}
_HERE = reported(_SYSTEMS[sys.platform], "this machine") if sys.platform in _SYSTEMS else NOT_LOOKED


def commands_for(
    changes: Sequence[Change],
    case: Case,
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
    host = Host(system_of(case), makers_of(case), container_of(case), unit_of(case))
    of_machine = {change.knob: lines for change in changes if (lines := spell_machine(change, host))}
    kept, gone = _there([change for change in changes if change.knob not in of_machine], system)
    written = _of_runtime(kept, case, AtHand(case.model, program=program, anew=anew), system)
    lines = [line for spelled in of_machine.values() for line in spelled]
    return msgspec.structs.replace(
        written,
        short=tuple(lines_for_system(written.short, host.system)),
        lines=tuple(lines_for_system([*lines, *written.lines], host.system)),
        left_out=(*gone, *written.left_out),
    )


def _of_runtime(changes: Sequence[Change], case: Case, at_hand: AtHand, system: System | None) -> Commands:
    if not changes:
        return Commands()
    looker = looker_of(case.runtime.name.value_or(""))
    if looker is None:
        raise UserError("which runtime the plan is for is not known", "name it, such as llama_cpp or ollama")
    at_hand = at_hand._replace(
        unit=_unit(case.runtime, system),
        options=_options(looker, case.runtime, system, at_hand.program),
        listed=frozenset(str(f.value) for f in (case.model.name, case.model.path) if isinstance(f, Known)),
    )
    written = looker.commands_for(changes, case.runtime, at_hand)
    if not written.lines and [change.knob for change in changes] == [Knob.NATIVE_BUILD]:
        return looker.commands_for([Knob.VERSION.to(None)], case.runtime, at_hand)  # its packages fit every CPU
    return written


def _at_home(case: Case, name: str) -> Case:
    """The case with what its lines are written for: the runtime's system, all layers, and the runtime's own names."""
    runtime, model = _named(case.runtime, name), case.model
    system, layers = first_known(runtime.system, case.machine.system.name), runtime.layers
    if isinstance(model.layers, Known) and not isinstance(layers, Known):
        layers = estimated(model.layers.value + 1, f"{model.layers.source}, and the output")
    # A person's word for the model, or the title in its file, may be no runtime's name for it
    called = model.name
    if not isinstance(called, Known) or called.origin is Origin.TOLD or not _NAME.fullmatch(called.value):
        model = msgspec.structs.replace(model, name=NOT_LOOKED)
    runtime = msgspec.structs.replace(runtime, system=system, layers=layers)
    return Case(machine=case.machine, runtime=runtime, model=model)


def _named(runtime: Runtime, name: str) -> Runtime:
    if isinstance(runtime.name, Known) or not name:
        return runtime
    wanted = _plain(name)
    full = next((looker.NAME for looker in lookers() if _plain(looker.NAME) == wanted), "")
    if not full:
        known = ", ".join(sorted(_plain(looker.NAME) for looker in lookers()))
        raise UserError(f"no runtime is named {name}", f"known are {known}")
    system = first_known(runtime.system, _HERE)  # what does not run yet is started here
    return msgspec.structs.replace(runtime, name=reported(full, "given"), system=system)


def _plain(name: str) -> str:
    """A runtime's name as people type it: llama.cpp, llama_cpp, LM Studio, lm-studio."""
    return "_".join(name.lower().replace(".", " ").replace("-", " ").replace("_", " ").split())


def _unit(runtime: Runtime, system: System | None) -> Unit:
    """The service that starts it, by its control group now, else by the limits that were seen of it."""
    if isinstance(runtime.unit, Known):
        return Unit.named(runtime.unit.value)
    pid = runtime.pid.value_or(0)
    if system is not None and pid:
        return read_unit(system, pid)
    name = unit_of(Case(runtime=runtime))
    return Unit(name) if name and not name.startswith("user@") else NO_UNIT


def _options(looker: Looker, runtime: Runtime, system: System | None, program: str) -> dict[str, str]:
    """What the program itself says that it has: the very one that runs, or the one that the user names."""
    read_own, read_named = getattr(looker, "read_own_options", None), getattr(looker, "read_options", None)
    if system is None or read_own is None or read_named is None:
        return {}
    runs = isinstance(runtime.pid, Known)
    return dict(read_own(system, runtime) if runs else read_named(system, program) if program else {})


def _there(changes: Sequence[Change], system: System | None) -> tuple[list[Change], tuple[tuple[Change, str], ...]]:
    """Changes that name no file that is gone, and those that do."""
    gone = [
        (change, f"{change.value} can't be read here")
        for change in changes
        if change.knob is Knob.MODEL_FILE and system is not None and not _can_be_read(str(change.value), system)
    ]
    missing = [change for change, _ in gone]
    return [change for change in changes if change not in missing], tuple(gone)


def _can_be_read(path: str, system: System) -> bool:
    """Whether a path leads to a file or a folder; a name that is no path is for the runtime to know."""
    if not is_absolute_path(path):
        return True
    try:
        return bool(system.read_head(path, _HEAD_BYTES))
    except LookError:
        pass
    try:
        return bool(system.list_dir(path))
    except LookError:
        return False


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
    findings = tuple(
        msgspec.structs.replace(finding, fixes=tuple(_fixes(finding, case, seen))) for finding in subject.findings
    )
    # the first fix is told as a command
    return summary(case, msgspec.structs.replace(subject, findings=findings))


def _fixes(finding: Finding, case: Case, seen: set[tuple[str, ...]]) -> Iterator[Fix]:
    """The fixes as commands; the same commands only where they come first."""
    for fix in finding.fixes:
        try:
            commands = commands_for([Change(Knob(fix.knob), _value(fix, finding, case), fix.why)], case)
        except UserError:  # of a runtime that is not known
            commands = Commands()
        lines = (*commands.short, *commands.lines)  # from the shortest words to the whole command
        # The word of the cause, unless it speaks of removing what is rather set to another value
        removes = not lines or lines[0].startswith(("remove ", "start it without "))
        why = fix.why if removes else fix.why.removeprefix("remove the setting: ")
        again = len(lines) > 1 and lines in seen
        seen.add(lines)
        yield msgspec.structs.replace(fix, commands=() if again else lines, why=f"{why} (as above)" if again else why)


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
