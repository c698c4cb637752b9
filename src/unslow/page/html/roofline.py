"""The picture of a roofline: the slope of the memory, the flat roof of computing, and this model's phases below."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import atan2, cos, degrees, hypot, sin

from unslow.page.html.figure import Key, Table, figure, foot_axis, margin, short_number, si_number, side_axis
from unslow.page.html.markup import Markup, join_markup
from unslow.page.html.svg import (
    FONT,
    FORMATS,
    LINE,
    Box,
    Drawing,
    LabelSpace,
    Log,
    clamp,
    decades,
    fit_text,
    marker,
    number,
    polyline,
    spots_around,
    width,
)
from unslow.page.view import Roof, RooflinePoint, RooflineView

SHAPES = {"decode": "round", "prefill": "square"}
MOST_ROOFS, MOST_POINTS = 6, 12
_FEWEST_DECADES, _MOST_DECADES = 2.0, 9.0  # Less shows no slope; more makes all points one
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
        return clamp(self.flops_per_s / self.bytes_per_s)


@dataclass(frozen=True, slots=True)
class _Plot:
    area: Box
    across: Log
    up: Log
    room: LabelSpace

    def foot_of(self, roof: DrawnRoof) -> tuple[float, float]:
        """Where the slope enters the picture."""
        start = max(self.across.low, self.up.low / roof.bytes_per_s)
        return self.across.at(start), self.up.at(start * roof.bytes_per_s)

    def ridge_of(self, roof: DrawnRoof) -> tuple[float, float]:
        """Where slope and flat roof meet."""
        return self.across.at(roof.ridge), self.up.at(roof.flops_per_s)


def render_roofline(part: RooflineView, number: int) -> Markup:
    """The sentence, the picture, and its numbers."""
    # Roofs that differ, each with its name; eight of a kind are one
    groups: dict[tuple[float, float], list[Roof]] = {}
    for roof in part.roofs:
        if clamp(roof.bytes_per_s) > 0 and clamp(roof.flops_per_s) > 0 and _drawn_roof([roof]).ridge > 0:
            groups.setdefault((roof.bytes_per_s, roof.flops_per_s), []).append(roof)
    roofs = [_drawn_roof(alike) for alike in groups.values()][:MOST_ROOFS]
    points = [point for point in part.points if clamp(point.flops_per_byte) > 0][:MOST_POINTS]
    limits = [
        (
            r.device,
            bytes_rate(r.bytes_per_s),
            flops(r.flops_per_s),
            short_number(clamp(r.ridge_flops_per_byte)),
            r.source,
        )
        for r in part.roofs
    ]
    columns = ("Phase", "FLOP per byte", "Measured", "Predicted", "Roof", "Bound")
    tables = [
        Table("Device limits", ("Device", "Memory bandwidth", "Compute", "Ridge, FLOP per byte", "Source"), limits),
        Table("Phases of this model", columns, [*map(_point_row, part.points)]),
    ]
    keys = []
    for phase, name in product(SHAPES, ("measured", "predicted")):
        if any(p.phase == phase and getattr(p, f"{name}_flops_per_s") is not None for p in points):
            shape = marker(12, 6, SHAPES[phase], 4 if name == "measured" else 5)
            keys.append(Key(Markup(f'<path d="{shape}" class="mark {name} {phase}"/>'), f"{phase}, {name}"))
    draw = partial(draw_roofline, roofs=roofs, points=points)
    return figure(f"roofline-{number}", "Roofline", part.summary, draw, keys, tables, FORMATS[1:])


def _drawn_roof(alike: Sequence[Roof]) -> DrawnRoof:
    roof = alike[0]
    name = f"{len(alike)} × {roof.device}" if alike[1:] else roof.device
    return DrawnRoof(name, clamp(roof.bytes_per_s), clamp(roof.flops_per_s))


def _point_row(point: RooflinePoint) -> tuple[str, ...]:
    values = (point.measured_flops_per_s, point.predicted_flops_per_s, point.roof_flops_per_s)
    cells = ("-" if value is None else flops(value) for value in values)
    return point.label or point.phase, short_number(clamp(point.flops_per_byte)), *cells, _BOUND[point.bound_by]


def draw_roofline(drawing: Drawing, roofs: Sequence[DrawnRoof], points: Sequence[RooflinePoint]) -> None:
    """Roofs, then points, then the words where nothing else is."""
    if not roofs:
        drawing.words(0, LINE, "device limits unknown", class_="quiet")
        drawing.height = 2 * LINE
        return
    plot = _plot(drawing, roofs, points)
    for place, roof in enumerate(roofs):
        _roof(drawing, plot, roof, place)
    for point in points:
        _point(drawing, plot, point)
    for roof in roofs:
        is_named = _flat_words(drawing, plot, roof)
        _slope_words(drawing, plot, roof, "memory" if is_named else roof.name)
    plot.room.taken += [_reach_of(plot, point) for point in points]
    for point in points:
        _point_words(drawing, plot, point)
    for ridge in dict.fromkeys(float(f"{roof.ridge:.3g}") for roof in roofs):
        x, foot, said = plot.across.at(ridge), plot.area.bottom - 3, f"ridge {short_number(ridge)}"
        wide = width(said) + 10
        if spot := plot.room.first_free(Box(left, foot - LINE, left + wide, foot) for left in (x, x - wide)):
            drawing.words(spot.left + 5, spot.bottom - 3, said, class_="quiet")


def _plot(drawing: Drawing, roofs: Sequence[DrawnRoof], points: Sequence[RooflinePoint]) -> _Plot:
    low_x, high_x = _reach([*(roof.ridge for roof in roofs), *(clamp(p.flops_per_byte) for p in points)], 0.3, 6)
    low_y, high_y = _reach([*(roof.flops_per_s for roof in roofs), *(y for p in points for y in _heights(p))], 0.15, 3)
    marks = decades(low_y, high_y, 6)
    left = margin(map(si_number, marks))
    high = 270 if drawing.format.is_narrow else 300
    area = Box(left, LINE + 8, drawing.format.width - 8, LINE + 8 + high)
    across, up = Log(low_x, high_x, area.left, area.right), Log(low_y, high_y, area.bottom, area.top)
    drawing.words(0, LINE - 2, "compute, FLOP/s", class_="quiet")
    side_axis(drawing, area, up.at, marks, si_number)
    feet = decades(low_x, high_x, drawing.format.ticks)
    drawing.height = foot_axis(drawing, area, across.at, feet, lambda tick: f"{tick:,g}", "FLOP per byte read")
    return _Plot(area, across, up, LabelSpace(area))


def _reach(values: Sequence[float], below: float, above: float) -> tuple[float, float]:
    high = max(values) * above
    low = max(min(value for value in values if value > 0) * below, high / 10**_MOST_DECADES)
    return min(low, high / 10**_FEWEST_DECADES), high


def _heights(point: RooflinePoint) -> list[float]:
    values = (point.measured_flops_per_s, point.predicted_flops_per_s, point.roof_flops_per_s)
    return [clamp(value) for value in values if value is not None and value > 0]


def _roof(drawing: Drawing, plot: _Plot, roof: DrawnRoof, place: int) -> None:
    foot, ridge = plot.foot_of(roof), plot.ridge_of(roof)
    said = f"{roof.name}: {bytes_rate(roof.bytes_per_s)}, {flops(roof.flops_per_s)}"
    drawing.path(polyline([foot, ridge, (plot.area.right, ridge[1])]), f"roof roof-{place + 1}", said)
    drawing.line(ridge[0], ridge[1], ridge[0], plot.area.bottom, "ridge")
    for share in range(41):  # words keep off the slope
        x, y = foot[0] + (ridge[0] - foot[0]) * share / 40, foot[1] + (ridge[1] - foot[1]) * share / 40
        plot.room.take(Box(x - 4, y - 4, x + 4, y + 4))
    plot.room.take(Box(ridge[0], ridge[1] - 2, plot.area.right, ridge[1] + 2))


def _point(drawing: Drawing, plot: _Plot, point: RooflinePoint) -> None:
    x, reach = plot.across.at(point.flops_per_byte), _reach_of(plot, point)
    if reach.bottom > reach.top:
        drawing.line(x, reach.top, x, reach.bottom, "reach")
    pairs = ((point.measured_flops_per_s, "measured", 5), (point.predicted_flops_per_s, "predicted", 7.5))
    for value, name, size in pairs:
        if value is not None:
            y = plot.up.at(value)
            said = f"{point.label or point.phase}, {name}: {flops(value)}, {_share(value, point)}"
            drawing.path(marker(x, y, SHAPES[point.phase], size), f"mark {name} {point.phase}", said)
            plot.room.take(Box(x - 8, y - 8, x + 8, y + 8))


def _reach_of(plot: _Plot, point: RooflinePoint) -> Box:
    x, ends = plot.across.at(point.flops_per_byte), [plot.up.at(value) for value in _heights(point)]
    return Box(x - 2, min(ends, default=0.0), x + 2, max(ends, default=0.0))


def _flat_words(drawing: Drawing, plot: _Plot, roof: DrawnRoof) -> bool:
    """Whether there was room for the name and the compute limit."""
    y, right = plot.up.at(roof.flops_per_s), plot.area.right - 2
    for said in (f"{roof.name}: {flops(roof.flops_per_s)}", roof.name):
        shown = fit_text(said, plot.area.right - plot.area.left - 8, bold=True)
        spots = [Box(right - width(shown, bold=True), row, right, row + LINE) for row in (y - 4 - LINE, y + 4)]
        if spot := plot.room.first_free(spots):
            drawing.words(right, spot.bottom - 3, shown, "end", "strong")
            return True
    return False


def _slope_words(drawing: Drawing, plot: _Plot, roof: DrawnRoof, name: str) -> None:
    foot, ridge = plot.foot_of(roof), plot.ridge_of(roof)
    long = hypot(ridge[0] - foot[0], ridge[1] - foot[1])
    said = f"{fit_text(name, long * 0.55)}, {bytes_rate(roof.bytes_per_s)}"
    angle, half = atan2(ridge[1] - foot[1], ridge[0] - foot[0]), width(said) / 2
    for off in (7, -16):
        for share in (0.5, 0.6, 0.4, 0.7, 0.3):
            x = foot[0] + (ridge[0] - foot[0]) * share + off * sin(angle)
            y = foot[1] + (ridge[1] - foot[1]) * share - off * cos(angle)
            steps = [half * step / 4 for step in range(-4, 5)]
            middles = [(x + step * cos(angle), y - 4 + step * sin(angle)) for step in steps]
            boxes = [Box(at_x - 3, at_y - 5, at_x + 3, at_y + 3) for at_x, at_y in middles]
            if half + 6 <= long * min(share, 1 - share) and all(map(plot.room.is_free, boxes)):
                plot.room.taken.extend(boxes)
                turned = f'transform="rotate({degrees(angle):.1f} {number(x)} {number(y)})"'
                about = f'x="{number(x)}" y="{number(y)}" {turned} text-anchor="middle" class="quiet"'
                drawing.add(Markup(f"<text {about}>{join_markup([said])}</text>"))
                return


def _point_words(drawing: Drawing, plot: _Plot, point: RooflinePoint) -> None:
    value = point.measured_flops_per_s if point.measured_flops_per_s is not None else point.predicted_flops_per_s
    if value is None:
        return
    x, y = plot.across.at(point.flops_per_byte), plot.up.at(value)
    name, _, more = (point.label or point.phase).partition(", ")
    name, bare = fit_text(name, 180, bold=True), [flops(value), _share(value, point), _BOUND[point.bound_by]]
    said_at_most = [[name, fit_text(more, 200), *bare]] if more else []
    for lines in (*said_at_most, *([name, *bare[left:]] for left in range(3)), [name]):
        wide = max(width(said, bold=not place) for place, said in enumerate(lines)) + 2
        spots = spots_around(x, y, wide, len(lines) * LINE, 12)
        if spot := plot.room.first_free(spots):
            for place, said in enumerate(lines):
                class_ = "quiet" if place else "strong"
                drawing.words(spot.left + 1, spot.top + place * LINE + FONT - 1, said, class_=class_)
            return


def flops(value: float) -> str:
    """A rate of computing."""
    return f"{si_number(clamp(value))}FLOP/s"


def bytes_rate(value: float) -> str:
    """A rate of reading."""
    return f"{si_number(clamp(value))}B/s"


def _share(value: float, point: RooflinePoint) -> str:
    return f"{clamp(value / point.roof_flops_per_s):.0%} of its roof" if point.roof_flops_per_s > 0 else "roof unknown"
