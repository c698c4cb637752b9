"""Command lines in the manner of Python's argparse, as settings by name.

A flag on the command line beats its environment variable; the last of several counts; `--a_b` is `--a-b`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from unslow.look.command_line import COMMAND, ENVIRONMENT, Setting, Spelled, hidden

_LONGEST_VALUE = 4096


class Flag(NamedTuple):
    """How a setting is spelled; a switch takes no value, and `--no-` before its name turns it off."""

    spellings: tuple[str, ...]
    variables: tuple[str, ...] = ()
    switch: bool = False
    secret: bool = False
    several: bool = False
    """Whether it takes all words up to the next flag; the first of them is its value."""


def switch(*spellings: str) -> Flag:
    """A flag without a value."""
    return Flag(spellings, switch=True)


class Flags:
    """Every flag of one program."""

    def __init__(self, flags: Mapping[str, Flag]) -> None:
        self.flags = flags

    @cached_property
    def _by_spelling(self) -> dict[str, tuple[str, bool]]:
        found = {word: (name, True) for name, flag in self.flags.items() for word in flag.spellings}
        switches = ((n, w) for n, flag in self.flags.items() if flag.switch for w in flag.spellings)
        return found | {f"--no-{word[2:]}": (name, False) for name, word in switches if word.startswith("--")}

    def spellings(self) -> frozenset[str]:
        """Every word that is a flag."""
        return frozenset(self._by_spelling)

    def spelled(self, command: Sequence[str]) -> list[Spelled]:
        """The known flags of a command line, in order."""
        found, at = [], 1
        while at < len(command):
            word, equals, attached = command[at].partition("=")
            name, on = self._by_spelling.get(word.replace("_", "-") if word[:2] == "--" else word, ("", True))
            if not name:
                at += 1
                continue
            value, end = _value(self.flags[name], command, at, attached if equals else None)
            if self.flags[name].switch and not on:
                value = "false" if value == "true" else "true"
            found.append(Spelled(name, at, end, value[:_LONGEST_VALUE]))
            at = end
        return found

    def settings(self, command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Setting]:
        """Every setting that was given, by name."""
        variables = ((name, v) for name, flag in self.flags.items() for v in flag.variables if v in environment)
        given = {name: Setting(environment[v][:_LONGEST_VALUE], f"{ENVIRONMENT}: {v}") for name, v in variables}
        for name, start, end, value in self.spelled(command):
            secret = self.flags[name].secret
            given[name] = Setting(value, COMMAND if secret else f"{COMMAND}: {' '.join(command[start:end])[:300]}")
        return given

    def without_secrets(self, command: Sequence[str]) -> list[str]:
        """The command line as anybody may see it."""
        secrets = ((flag.start, flag.end) for flag in self.spelled(command) if self.flags[flag.name].secret)
        return hidden(command, secrets)

    def positional(self, command: Sequence[str]) -> Iterator[str]:
        """The words after the program that are neither a flag nor the value of a known one."""
        taken = {at for _, start, end, _ in self.spelled(command) for at in range(start, end)}
        for at, word in enumerate(command):
            unknown_flag = at > 0 and command[at - 1].startswith("-") and at - 1 not in taken
            if at > 0 and at not in taken and not word.startswith("-") and not unknown_flag:
                yield word


def _value(flag: Flag, command: Sequence[str], at: int, attached: str | None) -> tuple[str, int]:
    if flag.switch:
        return ("false" if (attached or "").lower() in ("false", "0") else "true"), at + 1
    if attached is not None:
        return attached, at + 1
    end = min(at + 2, len(command))
    while flag.several and end < len(command) and not command[end].startswith("-"):
        end += 1
    return (command[at + 1] if at + 1 < len(command) else ""), end
