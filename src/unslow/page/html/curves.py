"""A curve: what was measured with its interval against what was predicted, by depth of the context or by users."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from unslow.page.html import figure, svg
from unslow.page.html.markup import Markup
from unslow.page.view import CurvePoint, CurveView
from unslow.show.units import amount

FEET = {"depth": "tokens in context", "users": "concurrent users"}
_TITLES = {"depth": "Speed by context depth", "users": "Speed by concurrent users"}
_METRICS = {
    "decode_tokens_per_s": "decode, tok/s",
    "together_tokens_per_s": "decode, tok/s, all users combined",
    "prefill_tokens_per_s": "prefill, tok/s",
    "client_decode_tokens_per_s": "decode at the client, tok/s",
    "time_to_first_token_s": "time to first token",
}
MOST_POINTS = 200  # More are too close to tell apart
_SMALLEST = 1e-6  # What is less is as good as nothing, and has no place on a scale of doublings
_K = 1024
_STEP = 9.0  # Units between two spots of a line that words keep off


@dataclass(frozen=True, slots=True)
class _Plot:
    area: svg.Box
    across: Callable[[float], float]  # On a log scale; zero stands apart at the left
    up: svg.Linear
    unit: figure.Quantity
    room: svg.LabelSpace


def render_curve(part: CurveView, number: int) -> Markup:
    """The verdict as a sentence, the curve, and its numbers."""
    title = _TITLES[part.axis]
    said = ": ".join(text for text in (part.verdict.replace("_", " "), part.because) if text) or title
    points = sorted(part.points, key=lambda point: svg.clamp(point.at))[:MOST_POINTS]
    columns = (FEET[part.axis], "measured", "measured interval", "predicted", "predicted interval", "note")
    when = f", measured {part.measured_at}" if part.measured_at else ""
    rows = []
    for point in part.points:
        measured = _ends(part.metric, point.measured), _ends(part.metric, point.low, point.high)
        interval = _ends(part.metric, point.predicted_low, point.predicted_high)
        predicted = _ends(part.metric, point.predicted), interval
        rows.append((f"{svg.clamp(point.at):,.0f}", *measured, *predicted, point.note))
    keys = []
    whiskers = ", with interval" if any(p.low is not None for p in points) else ""
    for name, shape, more in (("measured", "round", whiskers), ("predicted", "diamond", "")):
        if any(getattr(p, name) is not None for p in points):
            mark = f'<path d="{svg.marker(12, 6, shape, 4)}" class="mark {name}"/>'
            sign = Markup(f'<path d="M0,6L24,6" class="line {name}"/>{mark}')
            keys.append(figure.Key(sign, f"{name}{more}"))
    if any(p.predicted_low is not None for p in points):
        sign = Markup('<rect x="0" y="0" width="24" height="12" class="band"/>')
        keys.append(figure.Key(sign, "prediction interval"))
    tables, draw = [figure.Table(f"{title}{when}", columns, rows)], partial(draw_curve, part=part, points=points)
    return figure.render_figure(f"{part.axis}-{number}", title, said, draw, keys, tables, svg.FORMATS[1:])


def _ends(metric: str, *ends: float | None) -> str:
    return "-" if None in ends else " to ".join(amount(metric, svg.clamp(end)) for end in ends if end is not None)


def draw_curve(drawing: svg.Drawing, part: CurveView, points: Sequence[CurvePoint]) -> None:
    """All of it, the words last, where nothing else is."""
    if not points:
        drawing.words(0, svg.LINE, "nothing measured or predicted", class_="quiet")
        drawing.height = 2 * svg.LINE
        return
    plot = _plot(drawing, part, points)
    _band(drawing, plot, points)
    if part.knee is not None and part.knee > 0:
        x = plot.across(svg.clamp(part.knee))
        drawing.line(x, plot.area.top - 4, x, plot.area.bottom, "knee")
        plot.room.take(svg.Box(x - 1, plot.area.top, x + 1, plot.area.bottom))
        drawing.words(x, plot.area.top - 7, f"knee: {place_words(part.axis, svg.clamp(part.knee))}", "middle", "strong")
    _line(drawing, plot, "predicted", [(p.at, p.predicted) for p in points])
    _line(drawing, plot, "measured", [(p.at, p.measured) for p in points])
    for point in points:
        x, where = plot.across(point.at), f"{point.at:,.0f} {FEET[part.axis]}"
        if point.low is not None and point.high is not None:
            low, high = plot.up.at(point.low), plot.up.at(point.high)
            middle, left, right, *ends = map(svg.number, (x, x - 4, x + 4, low, high))
            caps = "".join(f"M{left},{y}L{right},{y}" for y in ends)
            drawing.path(f"M{middle},{ends[0]}L{middle},{ends[1]}{caps}", "whisker")
            plot.room.take(svg.Box(x - 4, min(low, high) - 1, x + 4, max(low, high) + 1))
        # Hollow for what was predicted, full for what was measured
        for value, name, shape in ((point.predicted, "predicted", "diamond"), (point.measured, "measured", "round")):
            if value is not None:
                y, note = plot.up.at(value), f"; {point.note}" if point.note else ""
                said = f"{where}: {amount(part.metric, svg.clamp(value))} {name}{note}"
                drawing.path(svg.marker(x, y, shape, 4.5), f"mark {name}", said)
                plot.room.take(svg.Box(x - 5, y - 5, x + 5, y + 5))
    # Numbers where there is room: of all that was measured, and of the ends of the prediction
    predicted = [(point, point.predicted) for point in points if point.predicted is not None]
    measured = [(point, point.measured) for point in points if point.measured is not None]
    for point, value in [*measured[-1:], *measured[:-1]]:
        _value(drawing, plot, point, value, "value")
    for point, value in [*predicted[-1:], *(predicted[:1] if measured else predicted[:-1])]:
        _value(drawing, plot, CurvePoint(at=point.at), value, "quiet" if measured else "value")


def _plot(drawing: svg.Drawing, part: CurveView, points: Sequence[CurvePoint]) -> _Plot:
    ends = [(p.measured, p.low, p.high, p.predicted, p.predicted_low, p.predicted_high) for p in points]
    most = max((svg.clamp(value) for values in ends for value in values if value is not None), default=0.0)
    unit = figure.quantity(part.metric, most)
    end = svg.round_top(most * 1.02 / unit.by, 5) * unit.by
    steps = figure.round_ticks(0, end, 5, unit)
    left = figure.margin(unit.number(step) for step in steps)
    head = svg.LINE + (20 if part.knee else 8)
    area = svg.Box(left, head, drawing.format.width - 14, head + (200 if drawing.format.is_narrow else 250))
    up = svg.Linear(0, end, area.bottom, area.top)
    drawing.words(0, svg.LINE - 2, _METRICS.get(part.metric, part.metric.replace("_", " ")), class_="quiet")
    figure.side_axis(drawing, area, up.at, steps, unit.number)
    above = [max(svg.clamp(at), _SMALLEST) for at in (*(p.at for p in points), part.knee or 0) if at > 0] or [1.0]
    least, greatest = min(above), max(above)
    if greatest < least * 2:  # a single place stands in the middle
        least, greatest = least / 2, greatest * 2
    has_nothing = any(point.at <= 0 for point in points)
    scale = svg.Log(least, greatest, area.left + (44 if has_nothing else 12), area.right - 12)
    places = svg.powers(2, least * 0.93, greatest * 1.07, drawing.format.ticks)

    def across(value: float) -> float:
        return scale.at(value) if value > 0 else area.left + 12

    places = (0.0, *places) if has_nothing else places
    words = partial(place_words, part.axis)
    drawing.height = figure.foot_axis(drawing, area, across, places, words, FEET[part.axis])
    room = svg.LabelSpace(svg.Box(area.left + 1, svg.LINE, drawing.format.width, area.bottom - 2))
    return _Plot(area, across, up, unit, room)


def place_words(axis: str, value: float) -> str:
    """A place on the axis as it is written: a depth of context as 512, 4k or 128k, and so many users."""
    thousands = value / _K
    if axis == "depth" and thousands >= 1 and thousands == int(thousands):
        return f"{thousands:g}k"
    return f"{value:,.0f}" if axis == "depth" or value >= 1 else f"{value:g}"


def _band(drawing: svg.Drawing, plot: _Plot, points: Sequence[CurvePoint]) -> None:
    ends = [
        (plot.across(p.at), plot.up.at(p.predicted_low), plot.up.at(p.predicted_high))
        for p in points
        if p.predicted_low is not None and p.predicted_high is not None
    ]
    if len(ends) == 1:
        x, low, high = ends[0]
        drawing.box(svg.Box(x - 6, min(low, high), x + 6, max(low, high)), "band")
    elif ends:
        way = [(x, high) for x, _, high in ends] + [(x, low) for x, low, _ in reversed(ends)]
        drawing.path("M" + "L".join(f"{svg.number(x)},{svg.number(y)}" for x, y in way) + "Z", "band")


def _line(drawing: svg.Drawing, plot: _Plot, name: str, values: Sequence[tuple[float, float | None]]) -> None:
    there = [(plot.across(at), plot.up.at(value)) for at, value in values if value is not None]
    if there:
        drawing.path(svg.polyline(there), f"line {name}")
    for (x, y), (end_x, end_y) in pairwise(there):
        steps = max(1, round((abs(end_x - x) + abs(end_y - y)) / _STEP))
        for step in range(steps + 1):
            at_x, at_y = x + (end_x - x) * step / steps, y + (end_y - y) * step / steps
            plot.room.take(svg.Box(at_x - 2, at_y - 2, at_x + 2, at_y + 2))


def _value(drawing: svg.Drawing, plot: _Plot, point: CurvePoint, value: float, class_: str) -> None:
    """The number above, below or beside the point: the nearest free place."""
    said, x = plot.unit.number(value), plot.across(point.at)
    wide = svg.width(said, bold=True) + 2
    ends = [plot.up.at(v) for v in (value, point.low, point.high) if v is not None]
    rows = [row for far in (4, 9, 15, 22) for row in (min(ends) - far - svg.LINE, max(ends) + far)]
    lefts = (x - wide / 2, x + 5, x - 5 - wide)
    if spot := plot.room.first_free(svg.Box(left, row, left + wide, row + svg.LINE) for left in lefts for row in rows):
        drawing.words((spot.left + spot.right) / 2, spot.bottom - 3, said, "middle", class_)
