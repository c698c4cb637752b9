"""Where a line of a fix belongs: in a shell unless it says otherwise, by a label in front of it."""

import re
from enum import StrEnum
from typing import NamedTuple


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


def labelled(place: Place, text: str) -> str:
    """The line with the label of its place."""
    return f"{place}: {text}"


def in_place(text: str) -> str:
    """A line for a reader: its label stands alone over what has lines of its own."""
    place, said = line_of(text)
    return f"{place}:\n{said}" if place in _LABELLED and "\n" in said else text


def line_of(text: str) -> Line:
    """What a line says, and where that belongs."""
    for place in _LABELLED:
        if text.startswith(f"{place}: "):
            return Line(place, text.removeprefix(f"{place}: "))
    return Line(Place.FLAG if _FLAG.match(text) else Place.SHELL, text)
