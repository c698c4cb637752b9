"""What a command line or an environment says, whatever program it is for: settings, flags, paths."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from unslow.facts.masking import SHOWN_KEY

COMMAND = "command line"
ENVIRONMENT = "environment"

_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]")
_SEPARATOR = re.compile(r"[\\/]")


class Setting(NamedTuple):
    """A value as it was written, and where."""

    value: str
    source: str


UNSET = Setting("", "")


class GivenFlag(NamedTuple):
    """A known flag on a command line: which, the words it takes up, and its value."""

    name: str
    start: int
    end: int
    value: str


def without_words(command: Sequence[str], places: Iterable[tuple[int, int]]) -> list[str]:
    """The command line without the words between these starts and ends."""
    words = list(command)
    for start, end in sorted(places, reverse=True):
        del words[start:end]
    return words


def with_secrets_hidden(command: Sequence[str], places: Iterable[tuple[int, int]]) -> list[str]:
    """The command line as anybody may see it: where a flag with a secret starts and ends, a word stands for that."""
    words = list(command)
    for start, end in sorted(places, reverse=True):
        flag, equals, _ = command[start].partition("=")
        words[start:end] = [f"{flag}={SHOWN_KEY}"] if equals else [flag, SHOWN_KEY][: end - start]
    return words


def is_absolute_path(path: str) -> bool:
    """Whether a path starts at a root, of Unix or of Windows."""
    return path.startswith("/") or _DRIVE.match(path) is not None


def name_of_path(path: str) -> str:
    """The last part of a path."""
    return _SEPARATOR.split(path.rstrip("\\/"))[-1]
