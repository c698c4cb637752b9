"""Lines to copy as Markdown: what goes into a shell in one block, everything else under the name of its place."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from unslow.facts.placed import Line, Place, in_place, line_of

_TICKS = re.compile("`+")
_LANGUAGES = {
    Place.SHELL: "sh", Place.POWERSHELL: "powershell", Place.CMD: "bat", Place.PYTHON: "python",
    Place.REQUEST: "json", Place.COMPOSE: "yaml", Place.MANIFEST: "yaml",
}  # fmt: skip


_WHOLE = frozenset({Place.WHOLE_MODELFILE, Place.COMPOSE, Place.MANIFEST, Place.PYTHON})
"""Places whose texts have lines of their own; in a shell a second line would be a second command."""


def commands(texts: Sequence[str], indent: str = "") -> Iterator[str]:
    """The lines in their order, those of one place together."""
    for place, lines in groupby(map(line_of, texts), key=lambda line: line.place):
        yield from _of_place(place, list(lines), indent)


def command_text(text: str, indent: int = 2) -> Text:
    """A line to copy, for a terminal: never wrapped by us, and what has lines of its own starts at the left."""
    said = in_place(text)
    room = "" if "\n" in said else " " * indent
    return Text(f"{room}{said}", style="cyan", no_wrap=True, overflow="ignore")


def _of_place(place: Place, lines: list[Line], indent: str) -> Iterator[str]:
    if place is Place.HAND:
        yield from (f"{indent}- {_one_line(line.text)}" for line in lines)
    elif place is Place.FLAG:
        yield f"{indent}- {', '.join(map(_flag, lines))}"
    else:
        if place is not Place.SHELL:
            yield ""
            yield f"{indent}{place.value[0].upper()}{place.value[1:]}:"
        texts = [part for line in lines for part in _parts(place, line.text)]
        yield from _fence(texts, _LANGUAGES.get(place, "text"), indent)


def _parts(place: Place, text: str) -> list[str]:
    return text.split("\n") if place in _WHOLE else [_one_line(text)]


def _flag(line: Line) -> str:
    """A flag as code; what to do with it stands before."""
    words, dash, flag = _one_line(line.text).partition("-")
    return f"{words}{_code(dash + flag)}"


def _code(text: str) -> str:
    ticks = "`" * (1 + max((len(found) for found in _TICKS.findall(text)), default=0))
    room = " " if "`" in text else ""
    return f"{ticks}{room}{text}{room}{ticks}"


def _fence(lines: Sequence[str], language: str, indent: str) -> Iterator[str]:
    """A block that none of its lines can close."""
    fence = "`" * max(3, 1 + max(len(ticks) for line in lines for ticks in _TICKS.findall(line) or [""]))
    yield f"{indent}{fence}{language}"
    yield from (f"{indent}{line}".rstrip() for line in lines)
    yield f"{indent}{fence}"


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))
