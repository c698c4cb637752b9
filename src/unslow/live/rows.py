"""Rows of the screen with their bars and sparklines; the larger the rank of a row, the sooner it is left out."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.text import Text

from unslow.page.view import PartKind
from unslow.show.console import safe_text

WIDE_FROM, WIDE, NARROW = 60, 11, 6
"""From this width on the labels have their full names, and how wide they are then and before."""


class Row(NamedTuple):
    """One row under the label of its panel."""

    panel: str
    text: Text
    rank: int = 0


class Glyphs(NamedTuple):
    """The letters to draw with; parts of a memory differ without any colour."""

    levels: str
    full: str
    line: str
    range: str
    end: str
    parts: dict[PartKind, str]
    ellipsis: str
    degrees: str
    chosen: str


_KINDS: tuple[PartKind, ...] = ("weights", "kv", "compute", "stranger", "reserve", "free", "lacking")
_SHADES, _LETTERS = (dict(zip(_KINDS, letters, strict=True)) for letters in ("█▓▒╳┼·!", "WKBor.!"))
BLOCKS = Glyphs(
    levels=" ▁▂▃▄▅▆▇█", full="█", line="─", range="═", end="┤", parts=_SHADES, ellipsis="…", degrees="°C", chosen="▶"
)
ASCII = Glyphs(
    levels=" .:-=+*#@", full="#", line="-", range="=", end="|", parts=_LETTERS, ellipsis="...", degrees="C", chosen=">"
)


def label_rows(rows: Iterable[Row], width: int, ellipsis: str) -> list[Text]:
    """The rows with the label of each panel before its first one, cut to the width."""
    lines, before, wide = [], "", label_width(width)
    for row in rows:
        name = row.panel if row.panel != before else ""
        before = row.panel
        line = Text(no_wrap=True, end="").append(f"{name[: wide - 1]:<{wide}}", style="bold")
        line.append_text(row.text)
        lines.append(cut_line(line, width, ellipsis))
    return lines


def label_width(width: int) -> int:
    """How many columns the labels take."""
    return WIDE if width >= WIDE_FROM else NARROW


def text_columns(width: int) -> int:
    """How many columns are left beside the labels."""
    return max(10, width - label_width(width))


def cut_line(line: Text, width: int, ellipsis: str) -> Text:
    """The line, no wider than the screen."""
    if line.cell_len > width:
        line.truncate(max(0, width - len(ellipsis)))
        line.append(ellipsis)
    return line


def style_text(*pieces: str | tuple[str, str]) -> Text:
    """Pieces of text, some with a style; nothing in them can drive the terminal."""
    text = Text(no_wrap=True, end="")
    for piece in pieces:
        word, style = (piece, "") if isinstance(piece, str) else piece
        text.append(safe_text(word).replace("\n", " "), style=style)
    return text


def wrap_words(text: str, width: int, most: int) -> list[str]:
    """Whole words on lines of this width, at most so many; the last ends in dots where there is more."""
    lines = textwrap.wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False) or [""]
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = f"{lines[-1][: max(0, width - 4)]} ..."
    return lines


def chart(values: Sequence[float | None], top: float, width: int, rows: int, glyphs: Glyphs) -> list[str]:
    """The last values as columns of so many rows, the newest at the right end of what is drawn."""
    steps = len(glyphs.levels) - 1
    shown = list(values)[-width:]
    heights = [round(rows * steps * min(1.0, value / top)) if value and top > 0 else 0 for value in shown]
    # any speed at all is seen
    heights = [max(1, height) if value else height for height, value in zip(heights, shown, strict=True)]
    return [
        "".join(glyphs.levels[max(0, min(steps, height - row * steps))] for height in heights)
        for row in reversed(range(rows))
    ]


def gauge(now: float, low: float, high: float, top: float, width: int, glyphs: Glyphs) -> str:
    """A bar up to `now`; beyond it the stretch that was expected, and the end that nothing passes."""
    text_columns = width - 1
    done, start, end = (round(text_columns * min(1.0, value / top)) if top > 0 else 0 for value in (now, low, high))
    cells = [glyphs.range if start <= at < max(end, start + 1) else glyphs.line for at in range(text_columns)]
    cells[:done] = glyphs.full * done
    return "".join(cells) + glyphs.end


def stack_parts(parts: Sequence[tuple[PartKind, float]], width: int, glyphs: Glyphs) -> list[tuple[PartKind, str]]:
    """Stretches of a bar; edges are rounded, not lengths, so that the sum is exact. What is there is seen."""
    total = sum(size for _, size in parts) or 1.0
    edge, drawn, stretches = 0.0, 0, []
    for kind, size in parts:
        edge += size
        until = max(round(width * edge / total), drawn + (1 if size > 0 and drawn < width else 0))
        stretches.append((kind, glyphs.parts[kind] * (min(width, until) - drawn)))
        drawn = min(width, max(drawn, until))
    return stretches
