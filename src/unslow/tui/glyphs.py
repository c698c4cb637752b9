"""Bars and sparklines out of letters: of blocks where the terminal has them, of plain ASCII where not."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.think.view.report import PartKind


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


BLOCKS = Glyphs(
    levels=" ▁▂▃▄▅▆▇█",
    full="█",
    line="─",
    range="═",
    end="┤",
    parts={"weights": "█", "kv": "▓", "compute": "▒", "stranger": "╳", "reserve": "┼", "free": "·", "lacking": "!"},
    ellipsis="…",
    degrees="°C",
    chosen="▶",
)
ASCII = Glyphs(
    levels=" .:-=+*#@",
    full="#",
    line="-",
    range="=",
    end="|",
    parts={"weights": "W", "kv": "K", "compute": "B", "stranger": "o", "reserve": "r", "free": ".", "lacking": "!"},
    ellipsis="...",
    degrees="C",
    chosen=">",
)


def sparkline(values: Sequence[float | None], top: float, width: int, glyphs: Glyphs) -> str:
    """The last values as one row, against the same top; a blank where there is none."""
    return chart(values, top, width, 1, glyphs)[0]


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
    room = width - 1
    done, start, end = (round(room * min(1.0, value / top)) if top > 0 else 0 for value in (now, low, high))
    cells = [glyphs.range if start <= at < max(end, start + 1) else glyphs.line for at in range(room)]
    cells[:done] = glyphs.full * done
    return "".join(cells) + glyphs.end


def stacked(parts: Sequence[tuple[PartKind, float]], width: int, glyphs: Glyphs) -> list[tuple[PartKind, str]]:
    """Stretches of a bar; edges are rounded, not lengths, so that the sum is exact. What is there is seen."""
    total = sum(size for _, size in parts) or 1.0
    edge, drawn, stretches = 0.0, 0, []
    for kind, size in parts:
        edge += size
        until = max(round(width * edge / total), drawn + (1 if size > 0 and drawn < width else 0))
        stretches.append((kind, glyphs.parts[kind] * (min(width, until) - drawn)))
        drawn = min(width, max(drawn, until))
    return stretches


def is_unicode(encoding: str | None) -> bool:
    """Whether blocks can be written in this encoding."""
    try:
        BLOCKS.levels.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
