"""A command line with a setting changed: what to type, from the flag alone to the whole command."""

import shlex
from collections.abc import Mapping, Sequence

from unslow.look.command_line import taken_out, unset
from unslow.look.serving.arguments import Flags

Words = Sequence[str]


def without_flags(flags: Flags, command: Words, names: Words) -> list[str]:
    """The command line with these settings taken out."""
    return taken_out(command, ((flag.start, flag.end) for flag in flags.spelled(command) if flag.name in names))


def given_flags(flags: Flags, command: Words, names: Words) -> str:
    """These settings as they stand on the command line; empty where none does."""
    return " ".join(shlex.join(command[s.start : s.end]) for s in flags.spelled(command) if s.name in names)


def restarted(flags: Flags, command: Words, environment: Mapping[str, str], names: Words, words: Words) -> str:
    """One line for a shell: the settings of these names taken out, these words put in; empty without a command."""
    if not command:
        return ""
    variables = [v for name in names for v in flags.flags[name].variables if v in environment]
    return shlex.join([*unset(variables), *flags.without_secrets(without_flags(flags, command, names)), *words])
