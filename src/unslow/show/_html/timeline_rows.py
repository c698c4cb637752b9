"""Rows of a timeline: one quantity each, a line for each device; of many devices only one that differs stands out."""

from collections.abc import Iterator, Sequence

from unslow.show._html.axes import side_axis
from unslow.show._html.labels import Box, Room, fitted, width, wrapped
from unslow.show._html.quantities import round_ticks
from unslow.show._html.scales import Linear
from unslow.show._html.svg import BOLD_WORDS, LINE, Drawing, number
from unslow.show._html.timeline_tracks import SEVERAL, Line, Row, short_device
from unslow.think.view.report import TimelineView

MOST_COLUMNS = {"wide": 800, "middle": 300, "narrow": 200}
"""About one for each unit of width; of more, every second or third is drawn, and the table has the extremes of all."""
_GAP = 12.0
_WORDS = tuple[float, str, str]
"""Height, words, class of a name at the end of a line."""


def rows_drawn(drawing: Drawing, time: Linear, part: TimelineView, rows: Sequence[Row]) -> None:
    """All rows one below the other."""
    every = max(1, -(-len(part.times_s) // MOST_COLUMNS[drawing.format.name]))
    places = [number(time.at(second)) for second in part.times_s[::every]]
    for row in rows:
        top = drawing.height + (LINE + 5 if drawing.format.is_narrow else 4)
        area = Box(time.start, top, time.end, top + row.height)
        _held_back(drawing, time, part, row, area)
        up = Linear(row.low, row.high, area.bottom, area.top)
        side_axis(drawing, area, up, _marks(row), row.unit.bare)
        if row.limit is not None:
            drawing.line(area.left, up.at(row.limit), area.right, up.at(row.limit), "limit")
        for place, line in sorted(enumerate(row.lines), key=lambda one: one[0] in row.odd):
            if shape := _shape(line.values[::every], row, area, places):
                drawing.path(shape, _class(row, place), _about(row, line))
        _title(drawing, row, area, _names(drawing, row, area, up))
        drawing.height = area.bottom + _GAP


def _marks(row: Row) -> tuple[float, ...]:
    """Few numbers at the left, but two at least."""
    few = 3 if row.is_tall else 2
    tries = (round_ticks(row.low, row.high, most, row.unit) for most in range(few, few + 4))
    return next((found for found in tries if len(found) > 1), (row.low, row.high))


def _held_back(drawing: Drawing, time: Linear, part: TimelineView, row: Row, area: Box) -> None:
    """Behind the clocks: when the driver held them back."""
    if row.name != "clock_hz":
        return
    for mark in part.marks:
        if mark.harmful and mark.end_s > mark.start_s:
            drawing.box(Box(time.at(mark.start_s), area.top, time.at(mark.end_s), area.bottom), "held-back")


def _title(drawing: Drawing, row: Row, area: Box, room: float) -> None:
    """At the left of the row, or above it as far as there is room."""
    said = f"{row.label}, {row.unit.unit}" if row.unit.unit else row.label
    if drawing.format.is_narrow:
        drawing.words(0, area.top - 8, fitted(said, room))
        return
    for place, words in enumerate(wrapped(said.split(), room, " ")[:3]):
        drawing.words(0, area.top + 10 + place * LINE, words)


def _class(row: Row, place: int) -> str:
    if row.are_few:
        return f"line series-{place + 1}"
    return "line odd" if place in row.odd else "line other"


def _about(row: Row, line: Line) -> str:
    return f"{line.device}: {row.label} {row.unit.bare(line.low)} to {row.unit.full(line.high)}"


def _shape(values: Sequence[float | None], row: Row, area: Box, places: Sequence[str]) -> str:
    """The line, broken where no sample is. Written out, for it is done thousands of times; no value leaves its row."""
    low, bottom = row.low, area.bottom
    steep = (bottom - area.top) / (row.high - low)
    if None not in values:
        known = zip(places, values, strict=False)
        return _run([f"{x},{bottom - (value - low) * steep:.1f}" for x, value in known if value is not None])
    pieces: list[str] = []
    run: list[str] = []
    for x, value in zip(places, values, strict=False):
        if value is None:
            pieces.append(_run(run))
            run = []
        else:
            run.append(f"{x},{bottom - (value - low) * steep:.1f}")
    return "".join([*pieces, _run(run)])


def _run(run: list[str]) -> str:
    """A stretch without a gap; one sample alone is a dot."""
    return f"M{run[0]}h0" if len(run) == 1 else "M" + "L".join(run) if run else ""


def _names(drawing: Drawing, row: Row, area: Box, up: Linear) -> float:
    """What differs and the limit: beside the row, or above it on a phone. Gives the room that its title has."""
    limit = [(up.at(row.limit), f"limit {row.unit.full(row.limit)}", "quiet")] if row.limit is not None else []
    said = [*_said(row, up), *limit]
    if drawing.format.is_narrow:
        return _names_above(drawing, area, said)
    room = Room(Box(area.right, area.top - 10, drawing.format.width, area.bottom + 10))
    for y, words, class_ in said:
        shown = fitted(words, drawing.format.width - area.right - 8, bold=class_ in BOLD_WORDS)
        if spot := room.first_free(_beside(area.right + 6, y, drawing.format.width)):
            drawing.words(spot.left, spot.bottom - 3, shown, class_=class_)
    return area.left - 44


def _said(row: Row, up: Linear) -> Iterator[_WORDS]:
    """Of many lines, which is which; of few the legend tells."""
    if row.are_few:
        return
    for place in sorted(row.odd)[:SEVERAL]:
        yield up.at(row.lines[place].last), short_device(row.lines[place].device), "odd-words"
    others = [line.last for place, line in enumerate(row.lines) if place not in row.odd]
    if others:
        yield up.at(others[0]), f"{len(others)} others" if row.odd else f"all {len(others)} alike", "quiet"


def _beside(x: float, y: float, right: float) -> Iterator[Box]:
    for shift in (0, -LINE, LINE, -2 * LINE, 2 * LINE, -3 * LINE):
        yield Box(x, y - LINE / 2 + shift, right, y + LINE / 2 + shift)


def _names_above(drawing: Drawing, area: Box, said: Sequence[_WORDS]) -> float:
    """From the right end on, as many as there is room for beside the title."""
    right = drawing.format.width
    for _, words, class_ in said:
        wide = width(words, bold=class_ in BOLD_WORDS)
        if right - wide > drawing.format.width * 0.4:
            drawing.words(right, area.top - 8, words, "end", class_)
            right -= wide + 8
    return right
