"""Rows of the screen, and which of them are left out where it is small."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.text import Text

from unslow.show._clean import safe

WIDE_FROM, WIDE, NARROW = 60, 11, 6
"""From this width on the labels have their full names, and how wide they are then and before."""


class Row(NamedTuple):
    """One row under the label of its panel; the larger its rank, the sooner it is left out."""

    panel: str
    text: Text
    rank: int = 0


def label_width(width: int) -> int:
    """How many columns the labels take."""
    return WIDE if width >= WIDE_FROM else NARROW


def room(width: int) -> int:
    """How many columns are left beside the labels."""
    return max(10, width - label_width(width))


def styled(*pieces: str | tuple[str, str]) -> Text:
    """Pieces of text, some with a style; nothing in them can drive the terminal."""
    text = Text(no_wrap=True, end="")
    for piece in pieces:
        word, style = (piece, "") if isinstance(piece, str) else piece
        text.append(safe(word).replace("\n", " "), style=style)
    return text


def wrapped(text: str, width: int, most: int) -> list[str]:
    """Whole words on lines of this width, at most so many; the last ends in dots where there is more."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    lines.append(line)
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = f"{lines[-1][: max(0, width - 4)]} ..."
    return lines


def fitted(rows: Sequence[Row], height: int) -> list[Row]:
    """As many rows as there is room for, in their order, those of the highest rank left out first."""
    keep = sorted(range(len(rows)), key=lambda at: (rows[at].rank, at))[: max(0, height)]
    return [rows[at] for at in sorted(keep)]


def labelled(rows: Iterable[Row], width: int, ellipsis: str) -> list[Text]:
    """The rows with the label of each panel before its first one, cut to the width."""
    lines, before, wide = [], "", label_width(width)
    for row in rows:
        name = row.panel if row.panel != before else ""
        before = row.panel
        line = Text(no_wrap=True, end="").append(f"{name[: wide - 1]:<{wide}}", style="bold")
        line.append_text(row.text)
        lines.append(cut(line, width, ellipsis))
    return lines


def cut(line: Text, width: int, ellipsis: str) -> Text:
    """The line, no wider than the screen."""
    if line.cell_len > width:
        line.truncate(max(0, width - len(ellipsis)))
        line.append(ellipsis)
    return line
