"""SVG drawings: shapes and words with classes that `charts.css` colours, room for words, and scales with ticks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, floor, isfinite, log2, log10
from typing import Literal

from unslow.page.html.markup import Markup, join_markup, tag
from unslow.show.console import safe_text

MOST, LEAST = 1e18, 1e-18
"""What is larger (a broken counter) is drawn as this, what is smaller as nothing: differences and logarithms of them
stay finite."""
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
"""Steps of a clock: a third of a minute is hard to read."""
FONT = 12.0  # Units of the picture: `charts.css` says the same
LINE = FONT * 1.25  # From one line of text to the next
BOLD = 1.13  # How much wider bold letters are
BOLD_WORDS = frozenset({"strong", "value", "odd-words", "harmful-words"})  # Classes that `charts.css` makes bold
_THIN, _BROAD = frozenset("iljtfrI.,:;'|!()[] -/·"), frozenset("mwMW@%GOQ—…")
_EAST_ASIAN = 0x2E80  # From there on a letter is a square
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, slots=True)
class Format:
    """A width to draw for: of a picture in several, `charts.css` shows the one that fits the place that it has."""

    name: Literal["wide", "middle", "narrow"]
    width: float
    ticks: int  # How many numbers there is room for along the foot

    @property
    def is_narrow(self) -> bool:
        return self.name == "narrow"


WIDE, MIDDLE, NARROW = Format("wide", 960, 10), Format("middle", 560, 8), Format("narrow", 340, 6)
"""For a panel over the whole page, for one over a part of it, and for a phone."""
FORMATS = (WIDE, MIDDLE, NARROW)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether the two share more than an edge."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


@dataclass(slots=True)
class Drawing:
    """A picture that grows downwards: its height is known when all is drawn."""

    format: Format
    name: str  # A prefix of ids, its own in the whole page
    height: float = 0.0
    parts: list[Markup] = field(default_factory=list)

    def add(self, part: Markup) -> None:
        self.parts.append(part)

    def line(self, x1: float, y1: float, x2: float, y2: float, class_: str) -> None:
        places = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
        self.add(Markup(f'<line {places} class="{class_}"/>'))

    def box(self, area: Box, class_: str, title: str = "", fill: str = "") -> None:
        """A rectangle; `fill` names one of this drawing's patterns, drawn above it."""
        places = (
            f'x="{number(area.left)}" y="{number(area.top)}" width="{number(max(0.0, area.right - area.left))}" '
            f'height="{number(max(0.0, area.bottom - area.top))}"'
        )
        about = tag("title", safe_text(title)) if title else ""
        self.add(Markup(f'<rect {places} class="{class_}">{about}</rect>'))
        if fill:
            self.add(Markup(f'<rect {places} class="pattern" fill="url(#{self.name}-{fill})"/>'))

    def path(self, shape: str, class_: str, title: str = "") -> None:
        """A path of absolute commands."""
        about = tag("title", safe_text(title)) if title else ""
        self.add(Markup(f'<path d="{shape}" class="{class_}">{about}</path>'))

    def words(self, x: float, y: float, said: str, anchor: Anchor = "start", class_: str = "") -> None:
        """A line of text, moved or cut where it would leave the picture."""
        if not said:
            return
        bold = class_ in BOLD_WORDS
        said = fit_text(said, self.format.width, bold=bold)
        wide = width(said, bold=bold)
        before = {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        x = max(before, min(self.format.width - wide + before, x))
        aligned = "" if anchor == "start" else f' text-anchor="{anchor}"'
        named = f' class="{class_}"' if class_ else ""
        self.add(Markup(f'<text x="{number(x)}" y="{number(y)}"{aligned}{named}>{join_markup([said])}</text>'))

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
    content, name = Markup("".join(lines)), f"{drawing.name}-{name}"
    drawing.add(tag("pattern", content, id=name, width=gap, height=gap, patternUnits="userSpaceOnUse"))


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


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """A line through the points; one that is alone is a dot."""
    first, *others = (f"{number(x)},{number(y)}" for x, y in points)
    return f"M{first}h0{''.join(f'L{point}' for point in others)}"


def number(value: float) -> str:
    """A coordinate: a tenth of a unit is finer than a pixel."""
    value = max(-MOST, min(MOST, value))
    return f"{value:.1f}".removesuffix(".0")


@dataclass(slots=True)
class LabelSpace:
    """What of a picture is taken already."""

    whole: Box
    taken: list[Box] = field(default_factory=list)

    def take(self, box: Box) -> None:
        self.taken.append(box)

    def is_free(self, box: Box) -> bool:
        is_across = self.whole.left <= box.left and box.right <= self.whole.right
        is_within = is_across and self.whole.top <= box.top and box.bottom <= self.whole.bottom
        return is_within and not any(box.meets(other) for other in self.taken)

    def first_free(self, places: Iterable[Box]) -> Box | None:
        """The first of these that is free, which is then taken."""
        for box in places:
            if self.is_free(box):
                self.take(box)
                return box
        return None


def spots_around(x: float, y: float, wide: float, high: float, away: float) -> list[Box]:
    """Where a label may stand close to a point, the best first: right, left, below, above."""
    spots = []
    for far in (away, 2 * away):
        rows = (y - high / 2, y - high / 4, y - 3 * high / 4, y, y - high)
        spots += [Box(left, row, left + wide, row + high) for left in (x + far, x - far - wide) for row in rows]
        columns = (x - wide / 2, x - wide / 4, x - 3 * wide / 4, x, x - wide)
        spots += [Box(left, row, left + wide, row + high) for row in (y + far, y - high - far) for left in columns]
    return spots


@lru_cache(2048)  # every picture is drawn twice, and most words stand in both
def width(said: str, *, bold: bool = False) -> float:
    """About how wide it is, rather too wide: the fonts of systems differ by some percent."""
    return FONT * sum(map(_letter, said)) * (BOLD if bold else 1)


def _letter(letter: str) -> float:
    if letter in _THIN:
        return 0.36
    if letter in _BROAD:
        return 0.92
    if ord(letter) >= _EAST_ASIAN:
        return 1.05
    if letter.isdigit():
        return 0.64
    return 0.74 if letter.isupper() else 0.62


def fit_text(said: str, room: float, *, bold: bool = False) -> str:
    """As much of it as there is room for."""
    said, room = " ".join(safe_text(said).split()), room / (BOLD if bold else 1)
    if width(said) <= room:
        return said
    used = width("…")
    for place, letter in enumerate(said):
        used += FONT * _letter(letter)
        if used > room:
            return f"{said[:place].rstrip()}…" if place else ""
    return said


def wrap_pieces(pieces: Sequence[str], room: float, between: str = " · ") -> list[str]:
    """The pieces in as many lines as they need; one that is longer than a line is cut."""
    lines: list[str] = []
    for piece in (fit_text(piece, room) for piece in pieces):
        longer = f"{lines[-1]}{between}{piece}" if lines else ""
        if lines and width(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(piece)
    return lines


@dataclass(frozen=True, slots=True)
class Linear:
    """Equal steps are equally long."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (clamp(value) - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return self.start + (self.end - self.start) * max(0.0, min(1.0, share))


class Log(Linear):
    """Equal factors are equally long; what is not above zero lies at the low end."""

    __slots__ = ()

    def at(self, value: float) -> float:
        exponents = Linear(log10(self.low), log10(self.high), self.start, self.end)
        return exponents.at(log10(max(self.low, clamp(value))))


def clamp(value: float) -> float:
    """The value, or the nearest that can be drawn."""
    if isinstance(value, float) and not isfinite(value):
        return MOST if value > 0 else -MOST if value < 0 else 0.0
    return float(max(-MOST, min(MOST, value))) if abs(value) >= LEAST else 0.0


def round_step(span: float, most: int) -> float:
    """The smallest step of 1, 2 or 5 that needs at most so many of them."""
    if span < LEAST:
        return 1.0
    rough = span / max(1, most)
    power = 10.0 ** floor(log10(rough))
    return next(power * nice for nice in (1, 2, 5, 10) if power * nice >= rough * (1 - 1e-9))


def ticks(low: float, high: float, most: int, *, of_a_clock: bool = False) -> tuple[float, ...]:
    """Round numbers from low to high; seconds in steps of a clock, from a second on."""
    by, rough = round_step(high - low, most), (high - low) / max(1, most)
    if of_a_clock and rough > 1:
        by = next((step for step in _SECONDS if step >= rough), by)
    first, last = ceil(low / by - 1e-9), floor(high / by + 1e-9)
    return tuple(number * by for number in range(first, last + 1))


def round_top(high: float, most: int) -> float:
    """The first round number that is not below; 1 where all is zero."""
    if high <= 0:
        return 1.0
    by = round_step(high, most)
    return ceil(high / by - 1e-9) * by


def powers(base: Literal[2, 10], low: float, high: float, most: int) -> tuple[float, ...]:
    """Powers of the base from low to high, every second or later one where they are many."""
    log = {2: log2, 10: log10}[base]
    first, last = ceil(log(low) - 1e-9), floor(log(high) + 1e-9)
    step = max(1, ceil((last - first + 1) / max(1, most)))
    return tuple(float(base) ** power for power in range(first, last + 1, step))
