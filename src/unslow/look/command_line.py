"""What a command line or an environment says, whatever program it is for: settings, flags, paths."""

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from unslow.facts.masking import SHOWN_KEY

COMMAND = "command line"
ENVIRONMENT = "environment"

_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]")
_SEPARATOR = re.compile(r"[\\/]")
NOT_A_FLAG = r"(?s)(?!-).*"
ALL_WORDS = sys.maxsize  # The most values of a flag that takes all words up to the next flag
_LONGEST_VALUE = 4096
_LONGEST_SOURCE = 300
_SCRIPT_WITHIN = 8  # words: an interpreter and its own flags come before it


class Setting(NamedTuple):
    """A value as it was written, and where; `more` are the further values of a flag that takes several."""

    value: str
    source: str
    more: tuple[str, ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        return (self.value, *self.more)


UNSET = Setting("", "")


class Flag(NamedTuple):
    """How a setting is spelled, and which of the words after it are its values."""

    spellings: tuple[str, ...]
    variables: tuple[str, ...] = ()
    opposites: tuple[str, ...] = ()  # Spellings that turn a switch off
    least: int = 1  # values, whatever they look like
    most: int = 1  # values; a switch takes none
    further: str = NOT_A_FLAG  # The pattern of the values after the least
    alone: str = ""  # What it means without a value
    secret: bool = False


def switch(*spellings: str, variable: str = "", off: tuple[str, ...] = ()) -> Flag:
    """A flag without a value."""
    return Flag(spellings, (variable,) if variable else (), off, least=0, most=0, alone="on")


def negatable(*spellings: str) -> Flag:
    """A switch that `--no-` before its name turns off."""
    return switch(*spellings, off=tuple(f"--no-{word[2:]}" for word in spellings if word.startswith("--")))


class GivenFlag(NamedTuple):
    """A known flag on a command line: which, the words it takes up, and its values."""

    name: str
    start: int
    end: int
    values: tuple[str, ...]

    @property
    def value(self) -> str:
        return self.values[0]


class Flags(dict[str, Flag]):
    """Every flag of one program, by the name of its setting.

    A flag on the command line beats its environment variable; the last of several counts; `--a_b` is `--a-b`.
    `script` is how the name of a program ends that an interpreter runs. Where a program takes no word without a flag
    (`only_flags`), whatever is left between a secret and the next flag may be a secret too.
    """

    def __init__(self, flags: Mapping[str, Flag], *, script: str = "", only_flags: bool = False) -> None:
        super().__init__(flags)
        self._script, self._only_flags = script, only_flags
        self._by_spelling = {word: name for name, flag in flags.items() for word in flag.spellings + flag.opposites}
        self.spellings = frozenset(self._by_spelling)

    def start_of(self, command: Sequence[str]) -> int:
        """Where the arguments start: a script has its interpreter before it."""
        words = command[:_SCRIPT_WITHIN] if self._script else ()
        return next((at for at, word in enumerate(words) if word.endswith(self._script)), 0) + 1

    def find_flags(self, command: Sequence[str]) -> list[GivenFlag]:
        """The known flags of a command line, in order."""
        found, at = [], self.start_of(command)
        while at < len(command):
            word, equals, attached = command[at].partition("=")
            word = word.replace("_", "-") if word.startswith("--") else word
            name, end = self._by_spelling.get(word), at + 1
            if name is not None:
                flag = self[name]
                if not flag.most:
                    is_on = (attached.lower() not in ("false", "0")) is (word not in flag.opposites)
                    values: tuple[str, ...] = (flag.alone if is_on else "off",)
                elif equals:
                    values = (attached,)
                else:
                    certain = command[end : end + flag.least]
                    possible = command[end + flag.least : end + flag.most]
                    values = (*certain, *takewhile(re.compile(flag.further).fullmatch, possible))
                    end += len(values)
                found.append(GivenFlag(name, at, end, values or (flag.alone,)))
            at = end
        return found

    def settings(self, command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Setting]:
        """Every setting that was given, by name."""
        variables = ((name, v) for name, flag in self.items() for v in flag.variables if v in environment)
        given = {name: Setting(environment[v][:_LONGEST_VALUE], f"{ENVIRONMENT}: {v}") for name, v in variables}
        for name, start, end, values in self.find_flags(command):
            source = COMMAND if self[name].secret else f"{COMMAND}: {' '.join(command[start:end])[:_LONGEST_SOURCE]}"
            given[name] = Setting(values[0][:_LONGEST_VALUE], source)
        return given

    def without(self, command: Sequence[str], names: Collection[str]) -> list[str]:
        """The command line without the flags of these names."""
        words = list(command)
        for flag in reversed(self.find_flags(command)):
            if flag.name in names:
                del words[flag.start : flag.end]
        return words

    def without_secrets(self, command: Sequence[str]) -> list[str]:
        """The command line as anyone may see it: a word stands for the value of each secret."""
        secrets = [(flag.start, flag.end) for flag in self.find_flags(command) if self[flag.name].secret]
        if self._only_flags:
            flags = [at for at, word in enumerate(command) if word.startswith("-")]
            secrets = [(start, next((at for at in flags if at >= end), len(command))) for start, end in secrets]
        words = list(command)
        for start, end in reversed(secrets):
            name, equals, _ = command[start].partition("=")
            words[start:end] = [f"{name}={SHOWN_KEY}"] if equals else [name, SHOWN_KEY][: end - start]
        return words

    def positional(self, command: Sequence[str]) -> Iterator[str]:
        """The words after the program that are neither a flag nor the value of a known one."""
        taken = {at for _, start, end, _ in self.find_flags(command) for at in range(start, end)}
        for at, word in enumerate(command):
            unknown_flag = at > 0 and command[at - 1].startswith("-") and at - 1 not in taken
            if at > 0 and at not in taken and not word.startswith("-") and not unknown_flag:
                yield word


def is_absolute_path(path: str) -> bool:
    """Whether a path starts at a root, of Unix or of Windows."""
    return path.startswith("/") or _DRIVE.match(path) is not None


def name_of_path(path: str) -> str:
    """The last part of a path."""
    return _SEPARATOR.split(path.rstrip("\\/"))[-1]
