"""A command line with other settings: the flags there are taken out, in whatever spelling, and put in anew."""

import shlex
from collections.abc import Mapping, Sequence

from unslow.facts.errors import UserError
from unslow.facts.masking import keyless_command
from unslow.look.command_line import taken_out
from unslow.look.launch.programs import PROGRAMS, Program, found_program

LOOPBACK = "127.0.0.1"


def with_settings(command: Sequence[str], settings: Mapping[str, int | str]) -> list[str]:
    """The command line with these settings, spelled as its program spells them; UserError where it has no such one."""
    program, at = program_of(command)
    names = {_spelled(program, setting)[0] for setting in settings}
    own = list(command[at:])
    kept = taken_out(own, [(start, end) for name, start, end in program.places(own) if name in names])
    words = [word for setting, value in settings.items() for word in (_spelled(program, setting)[1], str(value))]
    return [*command[:at], *kept, *words]


def on_loopback(command: Sequence[str], port: int) -> list[str]:
    """The command line that listens on this port of loopback and nowhere else."""
    program, at = program_of(command)
    own = list(command[at:])
    away = [(start, end) for name, start, end in program.places(own) if name in program.in_the_way]
    return with_settings([*command[:at], *taken_out(own, away)], {"host": LOOPBACK, "port": port})


def variables_of(command: Sequence[str], settings: Mapping[str, object]) -> list[str]:
    """The environment variables that would set the same, and so must not be there."""
    program, _ = program_of(command)
    return [variable for setting in settings for variable in program.variables.get(setting, ())]


def can_set(command: Sequence[str], setting: str) -> bool:
    """Whether the program of a command line has such a setting."""
    return setting in program_of(command)[0].spelled


def program_of(command: Sequence[str]) -> tuple[Program, int]:
    """The program and the word it begins at; UserError where none is known."""
    found = found_program(command)
    if found is None:
        known = ", ".join(program.name for program in PROGRAMS)
        hint = f"give the line that starts the server itself; known are the servers of {known}"
        line = " ".join(keyless_command(list(command)))[:200]
        raise UserError(f"no server that can be started is in the command {line!r}", hint)
    return found


def _spelled(program: Program, setting: str) -> tuple[str, str]:
    try:
        return program.spelled[setting]
    except KeyError:
        there = ", ".join(name for name in program.spelled if name not in ("host", "port"))
        raise UserError(f"{program.name} has no setting for {setting}", f"it has {there}") from None


def shown(command: Sequence[str]) -> str:
    """The command line as anybody may see it, for a shell."""
    program, at = program_of(command)
    return shlex.join([*command[:at], *program.shown(command[at:])])
