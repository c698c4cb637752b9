"""What is told on a command line or in an environment, whatever program it is for."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from unslow.look.keys import SHOWN

COMMAND = "command line"
ENVIRONMENT = "environment"


class Setting(NamedTuple):
    """A value as it was written, and where."""

    value: str
    source: str


UNSET = Setting("", "")


class Spelled(NamedTuple):
    """A known flag on a command line: which, the words it takes up, and its value."""

    name: str
    start: int
    end: int
    value: str


def taken_out(command: Sequence[str], places: Iterable[tuple[int, int]]) -> list[str]:
    """The command line without the words between these starts and ends."""
    words = list(command)
    for start, end in sorted(places, reverse=True):
        del words[start:end]
    return words


def unset(variables: Sequence[str]) -> list[str]:
    """What to put before a command line, so that it does not see these variables; nothing where there are none."""
    return ["env", *(word for variable in variables for word in ("-u", variable))] if variables else []


def hidden(command: Sequence[str], places: Iterable[tuple[int, int]]) -> list[str]:
    """The command line as anybody may see it: where a flag with a secret starts and ends, a word stands for that."""
    words = list(command)
    for start, end in sorted(places, reverse=True):
        flag, equals, _ = command[start].partition("=")
        words[start:end] = [f"{flag}={SHOWN}"] if equals else [flag, SHOWN][: end - start]
    return words
