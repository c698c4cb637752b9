"""The picture of a roofline: the slope of the memory, the flat roof of computing, and this model's phases below."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import atan2, cos, degrees, hypot, sin

from unslow.page.html import svg
from unslow.page.html.figure import Key, Table, foot_axis, margin, render_figure, short_number, si_number, side_axis
from unslow.page.html.markup import Markup, join_markup
from unslow.page.view import RooflinePoint, RooflineView

SHAPES = {"decode": "round", "prefill": "square"}
MOST_ROOFS, MOST_POINTS = 6, 12
_FEWEST_DECADES, _MOST_DECADES = 2.0, 9.0  # Less shows no slope; more makes all points one
_Slope = tuple[tuple[float, float], tuple[float, float]]
"""Where the slope of a roof enters the picture, and where it meets the flat part."""
_BOUND = {"memory": "memory-bound", "compute": "compute-bound", "overhead": "overhead-bound"}


@dataclass(frozen=True, slots=True)
class DrawnRoof:
    """A roof as it is drawn; both limits are above zero."""

    name: str
    bytes_per_s: float
    flops_per_s: float

    @property
    def ridge(self) -> float:
        """Where the two limits meet, in FLOP per byte."""
        return svg.clamp(self.flops_per_s / self.bytes_per_s)


@dataclass(frozen=True, slots=True)
class _Plot:
    area: svg.Box
    across: svg.Log
    up: svg.Log
    room: svg.LabelSpace


def render_roofline(part: RooflineView, number: int) -> Markup:
    """The sentence, the picture, and its numbers."""
    # Roofs that differ, each with its name; eight of a kind are one
    groups: dict[tuple[float, float], list[DrawnRoof]] = {}
    for roof in part.roofs:
        drawn = DrawnRoof(roof.device, svg.clamp(roof.bytes_per_s), svg.clamp(roof.flops_per_s))
        if drawn.bytes_per_s > 0 and drawn.flops_per_s > 0 and drawn.ridge > 0:
            groups.setdefault((roof.bytes_per_s, roof.flops_per_s), []).append(drawn)
    roofs = []
    for first, *others in list(groups.values())[:MOST_ROOFS]:
        roofs.append(replace(first, name=f"{len(others) + 1} × {first.name}") if others else first)
    points = [point for point in part.points if svg.clamp(point.flops_per_byte) > 0][:MOST_POINTS]
    limits = []
    for roof in part.roofs:
        ridge = short_number(svg.clamp(roof.ridge_flops_per_byte))
        limits.append((roof.device, _per_s(roof.bytes_per_s, "B"), _per_s(roof.flops_per_s), ridge, roof.source))
    phases = []
    for p in part.points:
        values = (p.measured_flops_per_s, p.predicted_flops_per_s, p.roof_flops_per_s)
        cells = ("-" if value is None else _per_s(value) for value in values)
        phases.append((p.label or p.phase, short_number(svg.clamp(p.flops_per_byte)), *cells, _BOUND[p.bound_by]))
    columns = ("Phase", "FLOP per byte", "Measured", "Predicted", "Roof", "Bound")
    tables = [
        Table("Device limits", ("Device", "Memory bandwidth", "Compute", "Ridge, FLOP per byte", "Source"), limits),
        Table("Phases of this model", columns, phases),
    ]
    keys = []
    for phase, name in product(SHAPES, ("measured", "predicted")):
        if any(p.phase == phase and getattr(p, f"{name}_flops_per_s") is not None for p in points):
            shape = svg.marker(12, 6, SHAPES[phase], 4 if name == "measured" else 5)
            keys.append(Key(Markup(f'<path d="{shape}" class="mark {name} {phase}"/>'), f"{phase}, {name}"))
    draw = partial(draw_roofline, roofs=roofs, points=points)
    return render_figure(f"roofline-{number}", "Roofline", part.summary, draw, keys, tables, svg.FORMATS[1:])


def draw_roofline(drawing: svg.Drawing, roofs: Sequence[DrawnRoof], points: Sequence[RooflinePoint]) -> None:
    """Roofs, then points, then the words where nothing else is."""
    if not roofs:
        drawing.words(0, svg.LINE, "device limits unknown", class_="quiet")
        drawing.height = 2 * svg.LINE
        return
    plot = _plot(drawing, roofs, points)
    slopes = [_roof(drawing, plot, roof, place) for place, roof in enumerate(roofs)]
    reaches = [_point(drawing, plot, point) for point in points]
    for roof, slope in zip(roofs, slopes, strict=True):
        name = "memory" if _flat_words(drawing, plot, roof) else roof.name
        _slope_words(drawing, plot, slope, name, _per_s(roof.bytes_per_s, "B"))
    plot.room.taken += reaches
    for point in points:
        _point_words(drawing, plot, point)
    for ridge in dict.fromkeys(float(f"{roof.ridge:.3g}") for roof in roofs):
        x, foot, said = plot.across.at(ridge), plot.area.bottom - 3, f"ridge {short_number(ridge)}"
        wide = svg.width(said) + 10
        if spot := plot.room.first_free(svg.Box(left, foot - svg.LINE, left + wide, foot) for left in (x, x - wide)):
            drawing.words(spot.left + 5, spot.bottom - 3, said, class_="quiet")


def _plot(drawing: svg.Drawing, roofs: Sequence[DrawnRoof], points: Sequence[RooflinePoint]) -> _Plot:
    low_x, high_x = _reach([*(roof.ridge for roof in roofs), *(svg.clamp(p.flops_per_byte) for p in points)], 0.3, 6)
    low_y, high_y = _reach([*(roof.flops_per_s for roof in roofs), *(y for p in points for y in _heights(p))], 0.15, 3)
    marks = svg.powers(10, low_y, high_y, 6)
    left = margin(map(si_number, marks))
    high = 270 if drawing.format.is_narrow else 300
    area = svg.Box(left, svg.LINE + 8, drawing.format.width - 8, svg.LINE + 8 + high)
    across, up = svg.Log(low_x, high_x, area.left, area.right), svg.Log(low_y, high_y, area.bottom, area.top)
    drawing.words(0, svg.LINE - 2, "compute, FLOP/s", class_="quiet")
    side_axis(drawing, area, up.at, marks, si_number)
    feet = svg.powers(10, low_x, high_x, drawing.format.ticks)
    drawing.height = foot_axis(drawing, area, across.at, feet, lambda tick: f"{tick:,g}", "FLOP per byte read")
    return _Plot(area, across, up, svg.LabelSpace(area))


def _reach(values: Sequence[float], below: float, above: float) -> tuple[float, float]:
    high = max(values) * above
    low = max(min(value for value in values if value > 0) * below, high / 10**_MOST_DECADES)
    return min(low, high / 10**_FEWEST_DECADES), high


def _heights(point: RooflinePoint) -> list[float]:
    values = (point.measured_flops_per_s, point.predicted_flops_per_s, point.roof_flops_per_s)
    return [svg.clamp(value) for value in values if value is not None and value > 0]


def _roof(drawing: svg.Drawing, plot: _Plot, roof: DrawnRoof, place: int) -> _Slope:
    start = max(plot.across.low, plot.up.low / roof.bytes_per_s)
    foot = plot.across.at(start), plot.up.at(start * roof.bytes_per_s)
    ridge = plot.across.at(roof.ridge), plot.up.at(roof.flops_per_s)
    said = f"{roof.name}: {_per_s(roof.bytes_per_s, 'B')}, {_per_s(roof.flops_per_s)}"
    drawing.path(svg.polyline([foot, ridge, (plot.area.right, ridge[1])]), f"roof roof-{place + 1}", said)
    drawing.line(ridge[0], ridge[1], ridge[0], plot.area.bottom, "ridge")
    for share in range(41):  # words keep off the slope
        x, y = foot[0] + (ridge[0] - foot[0]) * share / 40, foot[1] + (ridge[1] - foot[1]) * share / 40
        plot.room.take(svg.Box(x - 4, y - 4, x + 4, y + 4))
    plot.room.take(svg.Box(ridge[0], ridge[1] - 2, plot.area.right, ridge[1] + 2))
    return foot, ridge


def _point(drawing: svg.Drawing, plot: _Plot, point: RooflinePoint) -> svg.Box:
    """Returns what it reaches over, from the lowest of its marks to its roof."""
    x, ends = plot.across.at(point.flops_per_byte), [plot.up.at(value) for value in _heights(point)]
    reach = svg.Box(x - 2, min(ends, default=0.0), x + 2, max(ends, default=0.0))
    if reach.bottom > reach.top:
        drawing.line(x, reach.top, x, reach.bottom, "reach")
    pairs = ((point.measured_flops_per_s, "measured", 5), (point.predicted_flops_per_s, "predicted", 7.5))
    for value, name, size in pairs:
        if value is not None:
            y = plot.up.at(value)
            said = f"{point.label or point.phase}, {name}: {_per_s(value)}, {_share(value, point)}"
            drawing.path(svg.marker(x, y, SHAPES[point.phase], size), f"mark {name} {point.phase}", said)
            plot.room.take(svg.Box(x - 8, y - 8, x + 8, y + 8))
    return reach


def _flat_words(drawing: svg.Drawing, plot: _Plot, roof: DrawnRoof) -> bool:
    """Whether there was room for the name and the compute limit."""
    y, right = plot.up.at(roof.flops_per_s), plot.area.right - 2
    for said in (f"{roof.name}: {_per_s(roof.flops_per_s)}", roof.name):
        shown = svg.fit_text(said, plot.area.right - plot.area.left - 8, bold=True)
        left, rows = right - svg.width(shown, bold=True), (y - 4 - svg.LINE, y + 4)
        spots = [svg.Box(left, row, right, row + svg.LINE) for row in rows]
        if spot := plot.room.first_free(spots):
            drawing.words(right, spot.bottom - 3, shown, "end", "strong")
            return True
    return False


def _slope_words(drawing: svg.Drawing, plot: _Plot, slope: _Slope, name: str, limit: str) -> None:
    foot, ridge = slope
    long = hypot(ridge[0] - foot[0], ridge[1] - foot[1])
    said = f"{svg.fit_text(name, long * 0.55)}, {limit}"
    angle, half = atan2(ridge[1] - foot[1], ridge[0] - foot[0]), svg.width(said) / 2
    for off in (7, -16):
        for share in (0.5, 0.6, 0.4, 0.7, 0.3):
            x = foot[0] + (ridge[0] - foot[0]) * share + off * sin(angle)
            y = foot[1] + (ridge[1] - foot[1]) * share - off * cos(angle)
            steps = [half * step / 4 for step in range(-4, 5)]
            middles = [(x + step * cos(angle), y - 4 + step * sin(angle)) for step in steps]
            boxes = [svg.Box(at_x - 3, at_y - 5, at_x + 3, at_y + 3) for at_x, at_y in middles]
            if half + 6 <= long * min(share, 1 - share) and all(map(plot.room.is_free, boxes)):
                plot.room.taken.extend(boxes)
                turned = f'transform="rotate({degrees(angle):.1f} {svg.number(x)} {svg.number(y)})"'
                about = f'x="{svg.number(x)}" y="{svg.number(y)}" {turned} text-anchor="middle" class="quiet"'
                drawing.add(Markup(f"<text {about}>{join_markup([said])}</text>"))
                return


def _point_words(drawing: svg.Drawing, plot: _Plot, point: RooflinePoint) -> None:
    value = point.measured_flops_per_s if point.measured_flops_per_s is not None else point.predicted_flops_per_s
    if value is None:
        return
    x, y = plot.across.at(point.flops_per_byte), plot.up.at(value)
    name, _, more = (point.label or point.phase).partition(", ")
    name, bare = svg.fit_text(name, 180, bold=True), [_per_s(value), _share(value, point), _BOUND[point.bound_by]]
    said_at_most = [[name, svg.fit_text(more, 200), *bare]] if more else []
    for lines in (*said_at_most, *([name, *bare[left:]] for left in range(3)), [name]):
        wide = max(svg.width(said, bold=not place) for place, said in enumerate(lines)) + 2
        spots = svg.spots_around(x, y, wide, len(lines) * svg.LINE, 12)
        if spot := plot.room.first_free(spots):
            for place, said in enumerate(lines):
                class_ = "quiet" if place else "strong"
                drawing.words(spot.left + 1, spot.top + place * svg.LINE + svg.FONT - 1, said, class_=class_)
            return


def _per_s(value: float, what: str = "FLOP") -> str:
    return f"{si_number(svg.clamp(value))}{what}/s"


def _share(value: float, point: RooflinePoint) -> str:
    if point.roof_flops_per_s <= 0:
        return "roof unknown"
    return f"{svg.clamp(value / point.roof_flops_per_s):.0%} of its roof"
