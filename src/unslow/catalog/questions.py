"""How a missing fact can be had: commands that a person can be asked to run, and ways to read it."""

from collections.abc import Mapping
from functools import cache

import msgspec

from unslow.catalog import entries

UNKNOWN_WHICH = "unknown"  # Among systems, vendors or runtimes: where it is unknown which


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command, why it helps, what it gives, and where it makes sense; no list means anywhere.

    A label in front says where it is typed, if not in a shell (`facts.commands`).
    """

    command: str
    why: str
    gives: tuple[str, ...]
    runtimes: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()  # Those that it can speak of, where the runtime says which one computes
    shown_by: tuple[str, ...] = ()
    """Facts of which each, once a program printed it, shows that this output is there already."""
    since_build: int = 0  # Builds of llama.cpp that it is for, from this one on; those that have no number count as new
    before_build: int = 0
    finds_the_runtime: bool = False  # Only useful where the runtime is unknown
    compares_versions: bool = False  # Only of use where two versions are told of


@cache
def askable_commands() -> tuple[Command, ...]:
    """Every command, in the order of the files."""
    files = entries("questions", dict[str, tuple[Command, ...]])
    return tuple(command for file in files.values() for command in file["command"])


class ReadingWay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do, and where; no list means anywhere. Words in braces are other readings."""

    does: str
    systems: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()


@cache
def readings() -> Mapping[str, tuple[ReadingWay, ...]]:
    """The ways to each reading by its name, the first that fits to be taken."""
    files = entries("readings", dict[str, tuple[ReadingWay, ...]])
    return {name: ways for file in files.values() for name, ways in file.items()}
