"""Changes as the lines that a user copies, for the runtime that runs or one that the user names."""

import re
import sys
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from unslow.facts.commands import Commands
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED, Known, Origin, estimated, first_known, reported
from unslow.look.command_line import is_absolute_path
from unslow.look.command_writer import AtHand
from unslow.look.command_writer.machine_knobs import Host, spell_machine
from unslow.look.command_writer.shells import lines_for_system
from unslow.look.command_writer.starters import NO_UNIT, Unit, read_unit
from unslow.look.runtimes import Looker, looker_named, looker_of, names
from unslow.look.system import LookError, System
from unslow.think.case.instructions import container_of, makers_of, system_of, unit_of

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
    of_runtime = [change for change in changes if change.knob not in of_machine]
    gone = [
        (change, f"{change.value} can't be read here")
        for change in of_runtime
        if change.knob is Knob.MODEL_FILE and system is not None and not _can_be_read(str(change.value), system)
    ]
    missing = [change for change, _ in gone]
    there = [change for change in of_runtime if change not in missing]
    written = _of_runtime(there, case, AtHand(case.model, program=program, anew=anew), system)
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
    runtime, model = case.runtime, case.model
    if name and not isinstance(runtime.name, Known):
        typed = re.findall(r"[^\s._-]+", name.lower())  # llama.cpp, llama_cpp, LM Studio, lm-studio
        looker = looker_named("_".join(typed))
        if looker is None:
            raise UserError(f"no runtime is named {name}", f"known are {', '.join(names())}")
        here = first_known(runtime.system, _HERE)  # what does not run yet is started here
        runtime = msgspec.structs.replace(runtime, name=reported(looker.NAME, "given"), system=here)
    system, layers = first_known(runtime.system, case.machine.system.name), runtime.layers
    if isinstance(model.layers, Known) and not isinstance(layers, Known):
        layers = estimated(model.layers.value + 1, f"{model.layers.source}, and the output")
    # A person's word for the model, or the title in its file, may be no runtime's name for it
    called = model.name
    if not isinstance(called, Known) or called.origin is Origin.TOLD or not _NAME.fullmatch(called.value):
        model = msgspec.structs.replace(model, name=NOT_LOOKED)
    runtime = msgspec.structs.replace(runtime, system=system, layers=layers)
    return Case(machine=case.machine, runtime=runtime, model=model)


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


def _can_be_read(path: str, system: System) -> bool:
    """Whether a path leads to a file or a folder; a name that is no path is for the runtime to know."""
    if not is_absolute_path(path):
        return True
    for read in (lambda: system.read_head(path, _HEAD_BYTES), lambda: system.list_dir(path)):
        with suppress(LookError):
            return bool(read())
    return False
