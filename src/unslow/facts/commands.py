"""The lines that a user copies: where each belongs, and how a shell, PowerShell and YAML want them quoted."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from unslow.facts.knob import Change


class Commands(msgspec.Struct, frozen=True):
    """What to type for all changes at once, and what has no words in the version at hand."""

    short: tuple[str, ...] = ()
    """The bare words of each change, for a reader who knows where they go: a flag, an option of a chat or a request."""
    lines: tuple[str, ...] = ()
    """The whole of it, in order, each with the label of its place; a file is one, with newlines."""
    left_out: tuple[tuple[Change, str], ...] = ()  # Changes that this runtime can't have, each with the reason
    argv: tuple[str, ...] = ()
    """The whole command line, keys too: for whoever starts it, never to be shown; empty where there is none."""
    environment: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Variables that it needs; those that must not be there are None."""


class Place(StrEnum):
    """Where to put a line; the value of each but the first two is the label that it carries."""

    SHELL = "shell"
    FLAG = "flag"
    CHAT = "in a chat"
    REQUEST = "in a request"
    MODELFILE = "in the Modelfile"
    WHOLE_MODELFILE = "as the file Modelfile"
    COMPOSE = "in the compose file"
    MANIFEST = "in the manifest of the pod"
    PYTHON = "in Python"
    POWERSHELL = "in PowerShell"
    CMD = "in cmd.exe"
    HAND = "by hand"


class Line(NamedTuple):
    """A line without its label, and where it belongs."""

    place: Place
    text: str


_LABELLED = tuple(place for place in Place if place not in (Place.SHELL, Place.FLAG))
_FLAG = re.compile(r"(?:remove |start it without )?-{1,2}[A-Za-z]")


def labelled_line(place: Place, text: str) -> str:
    """The line with the label of its place."""
    return f"{place}: {text}"


def by_hand(text: str) -> str:
    """A line that tells a person what to do."""
    return labelled_line(Place.HAND, text)


def line_for_reader(text: str) -> str:
    """A line for a reader: its label stands alone over what has lines of its own."""
    place, said = parse_line(text)
    return f"{place}:\n{said}" if place in _LABELLED and "\n" in said else text


def parse_line(text: str) -> Line:
    """What a line says, and where that belongs."""
    for place in _LABELLED:
        if text.startswith(f"{place}: "):
            return Line(place, text.removeprefix(f"{place}: "))
    return Line(Place.FLAG if _FLAG.match(text) else Place.SHELL, text)


WINDOWS = "Windows"
_PLAIN = re.compile(r"[\w+=:./\\-][\w@+=:./\\-]*", re.ASCII)
"""What neither PowerShell nor cmd.exe reads as anything but itself."""
_TAME = re.compile(r'[^"$`%!\x00-\x1f]*')
"""What both read as itself in double quotes: in those PowerShell runs what stands in `$(...)`."""


def shell_quoted(word: str, system: str = "") -> str:
    """A word that a shell of the system reads as one: in double quotes where all shells of Windows shall."""
    if system != WINDOWS:
        return shlex.quote(word)
    return word if _PLAIN.fullmatch(word) else f'"{word}"' if _TAME.fullmatch(word) else powershell_word(word)


def is_plain_word(word: str) -> bool:
    """Whether every shell of Windows takes a word as it is, without quotes."""
    return bool(_PLAIN.fullmatch(word))


def powershell_word(word: str) -> str:
    """A word that PowerShell takes as it is; a quote in it is written twice."""
    return word if _PLAIN.fullmatch(word) else powershell_text(word)


def powershell_text(word: str) -> str:
    """A word in the quotes in which PowerShell reads nothing but text."""
    return "'" + word.replace("'", "''") + "'"


def shell_joined(words: Sequence[str], system: str = "") -> str:
    """A command line of these words; a program that has to be quoted is called by PowerShell's `&`."""
    line = " ".join(shell_quoted(word, system) for word in words)
    return f"& {line}" if system == WINDOWS and line.startswith(('"', "'")) else line


_PLAIN_YAML = re.compile(r"[A-Za-z_/][\w ./:-]*(?<![: ])")
_MEANT = re.compile(r"(?i)true|false|yes|no|on|off|null|y|n")  # Words that YAML takes for something else than text

Value = str | int | float | Mapping[str, "Value"] | Sequence["Value"]


def as_yaml(value: Value) -> str:
    """The whole, with a newline at its end."""
    return "\n".join(_lines(value, 0)) + "\n"


def yaml_quoted(text: str) -> str:
    """A text in double quotes, which YAML reads as JSON does."""
    return json.dumps(text, ensure_ascii=False)


def compose_quoted(text: str) -> str:
    """The same for a compose file, in which a single dollar begins a variable."""
    return yaml_quoted(text.replace("$", "$$"))


def _lines(value: Value, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, Mapping):
        for key, inner in value.items():
            head = f"{pad}{_text(key)}:"
            if _is_nested(inner):
                yield head
                yield from _lines(inner, depth + 1)
            elif isinstance(inner, str) and "\n" in inner:
                yield f"{head} |-"
                yield from (f"{pad}  {line}".rstrip() for line in inner.splitlines())
            else:
                yield f"{head} {_scalar(inner)}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            first, *rest = _lines(inner, depth + 1) if _is_nested(inner) else [f"{pad}  {_scalar(inner)}"]
            yield f"{pad}- {first.strip()}"
            yield from rest


def _is_nested(value: Value) -> bool:
    return not isinstance(value, str | int | float) and bool(value)


def _scalar(value: Value) -> str:
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value) if isinstance(value, int | float) else ("{}" if isinstance(value, Mapping) else "[]")


def _text(text: str) -> str:
    """As it is, else in the quotes that leave most of it as it is."""
    if _PLAIN_YAML.fullmatch(text) and not _MEANT.fullmatch(text) and ": " not in text:
        return text
    single = '"' in text and "'" not in text and text.isprintable()
    return f"'{text}'" if single else yaml_quoted(text)
