"""Commands that a person can be asked to run, and the facts that their output holds."""

from functools import cache

import msgspec

from unslow.catalog import entries


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command, why it helps, what it gives, and where it makes sense; no list means anywhere."""

    command: str
    why: str
    gives: tuple[str, ...]
    runtimes: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: tuple[Command, ...]


@cache
def commands() -> tuple[Command, ...]:
    """Every command, in the order of the files."""
    return tuple(command for _, file in entries("questions", _File) for command in file.command)
