"""A panel's figure: a sentence, the picture with its axes, what its signs mean, and the numbers as tables."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from unslow.page.html.markup import NOTHING, Markup, join_markup, sentence, tag
from unslow.page.html.svg import FORMATS, LINE, Box, Drawing, Format, clamp, ticks, width
from unslow.show.console import safe_text
from unslow.show.units import GB, GIB, MIB

MOST_ROWS = 200  # Of a table: more are too many to read, and the JSON has them all
_APART = 8.0  # Between two numbers of an axis
_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
Place = Callable[[float], float]  # Where a value is drawn, such as the `at` of a scale
_ENDINGS: tuple[tuple[tuple[str, ...], tuple[tuple[float, float, str], ...]], ...] = (
    (("_hz",), ((0, 1e6, "MHz"),)),
    (("_bytes_per_s",), ((GB / 10, GB, "GB/s"), (0, 1e6, "MB/s"))),
    (("_bytes",), ((GIB, GIB, "GiB"), (0, MIB, "MiB"))),
    (("tokens_per_s",), ((0, 1, "tok/s"),)),
    (("_per_s",), ((0, 1, "per second"),)),
    (("_s",), ((1, 1, "s"), (0, 1e-3, "ms"))),
    (("_w",), ((0, 1, "W"),)),
    (("_c",), ((0, 1, "°C"),)),
    (("busy", "pressure", "share", "usage", "fraction", "busiest_core"), ((0, 0.01, "%"),)),
)
"""By the end of a name: from which largest value on, divided by what, and the unit."""


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of a figure; the first column names the row."""

    caption: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Key:
    """What a sign means: a small drawing of 24 by 12 units."""

    sign: Markup
    words: str


@dataclass(frozen=True, slots=True)
class Quantity:
    """How a value is written: divided by `by`, with `unit` behind."""

    by: float
    unit: str

    def number(self, value: float) -> str:
        return short_number(clamp(value) / self.by)

    def with_unit(self, value: float) -> str:
        return f"{self.number(value)} {self.unit}".strip()


def render_figure(
    name: str,
    title: str,
    said: str,
    draw: Callable[[Drawing], None],
    keys: Sequence[Key],
    tables: Sequence[Table],
    formats: Sequence[Format] = FORMATS,
) -> Markup:
    """The whole of it; `name` is the panel's id, and every id inside begins with it."""
    return tag(
        "figure",
        tag("figcaption", sentence(safe_text(said) or title)),
        *drawings_of(name, title, said, draw, formats),
        below_drawings(keys, tables),
        class_="chart",
        id=f"{name}-figure",
    )


def drawings_of(
    name: str, title: str, said: str, draw: Callable[[Drawing], None], formats: Sequence[Format] = FORMATS
) -> list[Markup]:
    """The picture for places of different widths, the widest first."""
    made, about = [], safe_text(said)
    if about and not about.endswith((".", "!", "?", "…")):
        about += "."
    for form in formats:
        drawing = Drawing(form, f"{name}-{form.name}")
        draw(drawing)
        made.append(drawing.svg(title, f"{about} The table below has the numbers.".strip()))
    return made


def below_drawings(keys: Sequence[Key], tables: Sequence[Table]) -> Markup:
    """The signs with their meaning, hidden from screen readers, and all numbers, folded."""
    items = []
    for key in keys:
        sign = tag("svg", key.sign, viewBox="0 0 24 12", class_="swatch")
        items.append(tag("li", sign, tag("span", safe_text(key.words))))
    legend = tag("ul", *items, class_="legend", aria_hidden="true") if items else NOTHING
    shown = [_table(table) for table in tables if table.rows]
    numbers = tag("details", tag("summary", "Numbers"), *shown, class_="numbers") if shown else NOTHING
    return join_markup([legend, numbers])


def _table(table: Table) -> Markup:
    caption, shown = safe_text(table.caption), table.rows[:MOST_ROWS]
    # Numbers stand at the right, words at the left
    columns = zip(*shown, strict=True)
    classes = [None if any(cell[:1].isdigit() for cell in cells) else "words" for cells in columns]
    head = tag("tr", *(tag("th", n, scope="col", class_=c) for n, c in zip(table.columns, classes, strict=True)))
    left = len(table.rows) - MOST_ROWS
    more = tag("p", f"{left:,} more rows not shown", class_="more") if left > 0 else NOTHING
    rows = []
    for first, *others in shown:
        cells = [tag("td", safe_text(cell), class_=class_) for cell, class_ in zip(others, classes[1:], strict=True)]
        rows.append(tag("tr", tag("th", safe_text(first), scope="row"), *cells))
    body = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *rows))
    # scrolls by itself where it is too wide, and then can be reached by key
    return join_markup([tag("div", body, class_="scroll", tabindex=0, role="group", aria_label=caption), more])


def foot_axis(
    drawing: Drawing, area: Box, at: Place, ticks: Iterable[float], said: Callable[[float], str], unit: str
) -> float:
    """The axis below the area: numbers that would touch are left out. Gives the lowest place used."""
    end = -_APART
    for tick in ticks:
        x, words = at(tick), said(tick)
        drawing.line(x, area.top, x, area.bottom, "grid")
        start = max(0.0, min(drawing.format.width - width(words), x - width(words) / 2))
        if start >= end + _APART:
            drawing.words(x, area.bottom + LINE + 1, words, "middle", "quiet")
            end = start + width(words)
    drawing.line(area.left, area.bottom, area.right, area.bottom, "axis")
    drawing.words((area.left + area.right) / 2, area.bottom + 2 * LINE + 3, unit, "middle", "quiet")
    return area.bottom + 2 * LINE + 8


def side_axis(drawing: Drawing, area: Box, at: Place, ticks: Iterable[float], said: Callable[[float], str]) -> None:
    """The axis at the left of the area: from the foot upwards, numbers that would touch are left out."""
    last = area.bottom + LINE
    for tick in ticks:
        y = at(tick)
        drawing.line(area.left, y, area.right, y, "grid")
        if last - y >= LINE - 1:
            drawing.words(area.left - 6, y + 4, said(tick), "end", "quiet")
            last = y


def margin(words: Iterable[str]) -> float:
    """How much room the numbers at the left need."""
    return max((width(word) for word in words), default=0.0) + 8


def quantity(name: str, most: float = 0.0) -> Quantity:
    """By the unit that the name carries; `most` is the largest value, which chooses the prefix."""
    for endings, units in _ENDINGS:
        if name.endswith(endings):
            return next((Quantity(by, unit) for least, by, unit in units if most >= least), Quantity(*units[-1][1:]))
    return Quantity(1, "")


def round_ticks(low: float, high: float, most: int, unit: Quantity) -> tuple[float, ...]:
    """Numbers that are round in the unit that is shown."""
    return tuple(tick * unit.by for tick in ticks(low / unit.by, high / unit.by, most))


def short_number(value: float) -> str:
    """Three digits or so, with separators, without needless zeros."""
    if abs(value) >= 1e7:  # noqa: PLR2004 (a number that is hard to count by eye)
        return si_number(value)
    if abs(value) >= 100:  # noqa: PLR2004 (three digits)
        return f"{value:,.0f}"
    return f"{value:.3g}"


def si_number(value: float) -> str:
    """With k, M, G, T for thousands."""
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}"
    return f"{value:.3g} "
