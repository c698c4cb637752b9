"""Lines of a text, each with the name of the place where it stands."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_LONGEST_LINE = 4096
_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")


class Numbered(NamedTuple):
    """A line without colours, and where it stands: `NAME:LINE`."""

    source: str
    text: str


def numbered_lines(text: str, source: str, first_line: int = 1) -> Iterator[Numbered]:
    """Every line; none is so long that it could keep a pattern busy."""
    for number, line in enumerate(text.split("\n"), first_line):
        yield Numbered(f"{source}:{number}", _ESCAPE.sub("", line[:_LONGEST_LINE]).rstrip())
