"""A panel's figure: a sentence, the picture for both widths, what its signs mean, and the numbers as tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unslow.show._clean import safe
from unslow.show._html.markup import NOTHING, Markup, joined, sentence, tag
from unslow.show._html.svg import FORMATS, Drawing, Format

MOST_ROWS = 200
"""Of a table: nobody reads on, and the JSON has them all."""


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


def figure(
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
        tag("figcaption", sentence(safe(said) or title)),
        *drawings(name, title, said, draw, formats),
        legend(keys),
        numbers(tables),
        class_="chart",
        id=f"{name}-figure",
    )


def drawings(
    name: str, title: str, said: str, draw: Callable[[Drawing], None], formats: Sequence[Format] = FORMATS
) -> list[Markup]:
    """The picture for places of different widths, the widest first."""
    made = []
    for form in formats:
        drawing = Drawing(form, f"{name}-{form.name}")
        draw(drawing)
        made.append(drawing.svg(title, f"{_ended(safe(said))} The numbers are in the table below.".strip()))
    return made


def _ended(said: str) -> str:
    """With a stop at its end, so that what follows is a sentence of its own."""
    return f"{said}." if said and not said.endswith((".", "!", "?", "…")) else said


def legend(keys: Sequence[Key]) -> Markup:
    """The signs and their meaning; hidden from screen readers, which have the tables."""
    if not keys:
        return NOTHING
    return tag(
        "ul",
        *(
            tag("li", tag("svg", key.sign, viewBox="0 0 24 12", class_="swatch"), tag("span", safe(key.words)))
            for key in keys
        ),
        class_="legend",
        aria_hidden="true",
    )


def numbers(tables: Sequence[Table]) -> Markup:
    """All numbers, folded."""
    shown = [table for table in tables if table.rows]
    if not shown:
        return NOTHING
    return tag("details", tag("summary", "The numbers"), *map(_table, shown), class_="numbers")


def _table(table: Table) -> Markup:
    caption, shown = safe(table.caption), table.rows[:MOST_ROWS]
    classes = ["words" if _are_words(cells) else None for cells in zip(*shown, strict=True)]
    head = tag("tr", *(tag("th", n, scope="col", class_=c) for n, c in zip(table.columns, classes, strict=True)))
    left = len(table.rows) - MOST_ROWS
    more = tag("p", f"and {left:,} more rows", class_="more") if left > 0 else NOTHING
    rows = joined(_row(row, classes) for row in shown)
    body = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", rows))
    # scrolls by itself where it is too wide, and then can be reached by key
    return joined([tag("div", body, class_="scroll", tabindex=0, role="group", aria_label=caption), more])


def _are_words(cells: Sequence[str]) -> bool:
    """Numbers stand at the right, words at the left."""
    return not any(cell[:1].isdigit() for cell in cells)


def _row(cells: Sequence[str], classes: Sequence[str | None]) -> Markup:
    first, *others = (safe(cell) for cell in cells)
    named = [tag("td", cell, class_=class_) for cell, class_ in zip(others, classes[1:], strict=True)]
    return tag("tr", tag("th", first, scope="row"), *named)
