"""Drawings: shapes and words with classes that `charts.css` colours, in a box that scales with the page.

Each picture is drawn twice, wide and narrow; the style sheet shows the one that fits the room it is given.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from unslow.show._clean import safe
from unslow.show._html.labels import FONT, Box, fitted, width
from unslow.show._html.markup import Markup, joined, tag
from unslow.show._html.scales import MOST

Anchor = Literal["start", "middle", "end"]
BOLD_WORDS = frozenset({"strong", "value", "odd-words", "harmful-words"})
"""Classes that `charts.css` makes bold."""


@dataclass(frozen=True, slots=True)
class Format:
    """A width to draw for; `charts.css` says from which width of the place on it is shown."""

    name: Literal["wide", "middle", "narrow"]
    width: float
    ticks: int
    """How many numbers there is room for along the foot."""

    @property
    def is_narrow(self) -> bool:
        """Whether it is for a phone."""
        return self.name == "narrow"


WIDE, MIDDLE, NARROW = Format("wide", 960, 10), Format("middle", 560, 8), Format("narrow", 340, 6)
"""For a panel over the whole page, for one over a part of it, and for a phone."""
FORMATS = (WIDE, MIDDLE, NARROW)


def number(value: float) -> str:
    """A coordinate: a tenth of a unit is finer than a pixel."""
    value = max(-MOST, min(MOST, value))
    return f"{value:.1f}".removesuffix(".0")


@dataclass(slots=True)
class Drawing:
    """A picture that grows downwards: its height is known when all is drawn."""

    format: Format
    name: str
    """A prefix of ids, its own in the whole page."""
    height: float = 0.0
    parts: list[Markup] = field(default_factory=list)

    def add(self, part: Markup) -> None:
        """Anything that is ready."""
        self.parts.append(part)

    def line(self, x1: float, y1: float, x2: float, y2: float, class_: str) -> None:
        """A straight line."""
        places = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
        self.add(Markup(f'<line {places} class="{class_}"/>'))

    def box(self, area: Box, class_: str, title: str = "", fill: str = "") -> None:
        """A rectangle; `fill` names one of this drawing's patterns, drawn above it."""
        places = (
            f'x="{number(area.left)}" y="{number(area.top)}" width="{number(max(0.0, area.right - area.left))}" '
            f'height="{number(max(0.0, area.bottom - area.top))}"'
        )
        about = tag("title", safe(title)) if title else ""
        self.add(Markup(f'<rect {places} class="{class_}">{about}</rect>'))
        if fill:
            self.add(Markup(f'<rect {places} class="pattern" fill="url(#{self.name}-{fill})"/>'))

    def path(self, shape: str, class_: str, title: str = "") -> None:
        """A path of absolute commands."""
        about = tag("title", safe(title)) if title else ""
        self.add(Markup(f'<path d="{shape}" class="{class_}">{about}</path>'))

    def words(self, x: float, y: float, said: str, anchor: Anchor = "start", class_: str = "") -> None:
        """A line of text, moved or cut where it would leave the picture."""
        if not said:
            return
        bold = class_ in BOLD_WORDS
        said = fitted(said, self.format.width, bold=bold)
        wide = width(said, bold=bold)
        before = {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        x = max(before, min(self.format.width - wide + before, x))
        aligned = "" if anchor == "start" else f' text-anchor="{anchor}"'
        named = f' class="{class_}"' if class_ else ""
        self.add(Markup(f'<text x="{number(x)}" y="{number(y)}"{aligned}{named}>{joined([said])}</text>'))

    def svg(self, title: str, about: str) -> Markup:
        """The whole picture, with what a screen reader says of it."""
        return tag(
            "svg",
            tag("title", title, id=f"{self.name}-title"),
            tag("desc", about, id=f"{self.name}-desc"),
            *self.parts,
            class_=f"drawing {self.format.name}",
            viewBox=f"0 0 {number(self.format.width)} {number(self.height)}",
            role="img",
            aria_labelledby=f"{self.name}-title",
            aria_describedby=f"{self.name}-desc",
        )


def hatch(drawing: Drawing, name: str, class_: str, gap: float = 6, *, crossed: bool = False) -> None:
    """A pattern of slanted lines, so that colour is never the only sign."""
    lines = [f'<path d="M0,{number(gap)}L{number(gap)},0" class="{class_}"/>']
    if crossed:
        lines.append(f'<path d="M0,0L{number(gap)},{number(gap)}" class="{class_}"/>')
    drawing.add(
        tag(
            "pattern",
            Markup("".join(lines)),
            id=f"{drawing.name}-{name}",
            width=gap,
            height=gap,
            patternUnits="userSpaceOnUse",
        )
    )


def marker(x: float, y: float, shape: str, size: float = 5) -> str:
    """The path of a small mark around a point."""
    left, right, above, below = (number(place) for place in (x - size, x + size, y - size, y + size))
    middle, centre = number(x), number(y)
    if shape == "square":
        return f"M{left},{above}L{right},{above}L{right},{below}L{left},{below}Z"
    if shape == "diamond":
        return f"M{middle},{above}L{right},{centre}L{middle},{below}L{left},{centre}Z"
    round_ = f"A{number(size)},{number(size)} 0 1 1"
    return f"M{left},{centre}{round_} {right},{centre}{round_} {left},{centre}Z"


def polyline(points: Iterable[tuple[float, float] | None]) -> str:
    """A line through the points; it breaks where one is missing, and one that is alone is a dot."""
    pieces: list[str] = []
    drawn = 0
    for point in points:
        if point is None:
            drawn = 0
            continue
        pieces.append(f"{'L' if drawn else 'M'}{number(point[0])},{number(point[1])}")
        if not drawn:
            pieces.append("h0")
        drawn += 1
    return "".join(pieces)


LINE = FONT * 1.25
"""From one line of text to the next."""
