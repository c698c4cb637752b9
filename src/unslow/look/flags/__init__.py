"""How each runtime is started: one module for each, for command lines that somebody pastes.

A module offers `COMMANDS`; modules are found by presence. Command lines of running processes are read by
`look.runtimes`, with the same tables of flags underneath.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from unslow.facts.snapshot import Subject


class Commands(NamedTuple):
    """What a runtime's command lines look like, and what they mean."""

    program: re.Pattern[str]
    """Finds the program in a line; the words of the command begin where it is found."""
    flags: frozenset[str]
    """Spellings that only this runtime has: they are its own even where no program stands before them."""
    variables: tuple[str, ...]
    """How the names of its environment variables begin, such as `OLLAMA_`."""
    parse: Callable[[Sequence[str], Mapping[str, str]], Subject]
    """The facts of a command, the program being its first word, and of an environment; sources are put in later."""


@cache
def all_commands() -> dict[str, Commands]:
    """Every runtime's, by the name of its module."""
    names = [info.name for info in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"{__name__}.{name}").COMMANDS for name in names}
